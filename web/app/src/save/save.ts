import type { DirectoryFile } from '../ui/site.ts'
import { openFileStreams } from '../streaming/index.ts'
import {
  canPickFile,
  saveBlob,
  saveFromMemory,
  saveThroughPicker,
  saveThroughWorker,
  type Progress,
  type SaveEnd,
  type SaveSource,
} from './disk.ts'
import { safePaths } from '../names/saved.ts'
import { savedName } from './ending.ts'
import { zip } from './zip/zip.ts'

export { saveFolder } from './disk.ts'
export type { Progress, SaveEnd } from './disk.ts'

/** Files up to this size are saved whole, without asking for a place. */
const SAVED_WHOLE_BYTES = 64 << 20
/** Larger files may not fit into the memory of a phone. */
const MEMORY_BYTES_MAX = 512 << 20

/** The saved part of a page: one of its files, or all in one. */
export type SavedFile = Omit<DirectoryFile, 'path'> & {
  readonly name: string
  /** Whether the name is not its own, because it has none. */
  readonly isNameless?: boolean
}

/** Thrown when a large file would have to be held in memory; with `heavy`, the reader has confirmed that. */
export class MemoryConfirmationNeeded extends Error {}

/** Saves one file, while it loads if it is large. Must be called on a click. */
export async function saveFile(shown: SavedFile, progress: Progress, { heavy = false } = {}): Promise<SaveEnd> {
  const file = { ...shown, name: await savedName(shown, progress.signal) }
  const { streamed } = file
  // The place of a larger file is chosen with its size, and on the click.
  if (file.isEstimate || file.size <= SAVED_WHOLE_BYTES || streamed === undefined) return saveBlob(file.name, await file.blob())
  return saveStreamed(streamed.cid, saveSource(file), progress, heavy)
}

/** Saves files as one zip file that is created while it is written. Must be called on a click. */
export async function saveZip(
  name: string,
  cid: string,
  files: readonly SavedFile[],
  progress: Progress,
  { heavy = false } = {},
): Promise<SaveEnd> {
  const paths = safePaths(files.map((file) => file.name))
  const members = files.map((file, i) => ({ ...saveSource(file), path: paths[i] ?? file.name }))
  const { size, read } = zip(members, new Date())
  return saveStreamed(cid, { name: `${name}.zip`, size, read: async (signal) => read(signal) }, progress, heavy)
}

async function saveStreamed(cid: string, saved: SaveSource, progress: Progress, heavy: boolean): Promise<SaveEnd> {
  if (canPickFile()) return saveThroughPicker(saved, progress)
  const streams = await openFileStreams()
  if (streams !== null) return saveThroughWorker(streams, cid, saved, progress)
  if (saved.size > MEMORY_BYTES_MAX && !heavy) throw new MemoryConfirmationNeeded()
  return saveFromMemory(saved, progress)
}

/** A file in the form that is read for saving: in order, and with lower priority than media that plays. */
export function saveSource({ name, size, blob, streamed }: SavedFile): SaveSource {
  return {
    name,
    size,
    async read(signal) {
      if (streamed === undefined) return (await blob()).stream()
      const file = await streamed.open({ signal })
      return file.read(0, file.size, { signal, urgent: false })
    },
    whole: () => (streamed === undefined || (streamed.isWhole() && !streamed.isSealed) ? blob() : null),
  }
}
