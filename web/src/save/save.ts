import type { DirectoryFile } from '../ui/site.ts'
import { openTap } from '../tap/index.ts'
import { canPickFile, saveBlob, saveByMemory, saveByPicker, saveByWorker, type Progress, type SaveEnd, type Saved } from './disk.ts'
import { safePaths } from './names.ts'
import { zip } from './zip/zip.ts'

export { canPickFolder, saveFolder } from './disk.ts'
export type { Progress, SaveEnd } from './disk.ts'

/** A file up to this is handed over whole, without a question where to. */
const SAVED_WHOLE_BYTES = 64 << 20
/** More than this in memory may be more than a phone has. */
const MEMORY_BYTES_MAX = 512 << 20

/** What is saved of a page: one of its files, or all in one. */
export type SavedFile = Omit<DirectoryFile, 'path'> & { readonly name: string }

/** Thrown instead of filling the memory unasked; `heavy` may be tried again with the reader's word. */
export class TooHeavy extends Error {}

/** Saves one file, as it comes if it is large. To be called on a click. */
export async function saveFile(file: SavedFile, progress: Progress, { heavy = false } = {}): Promise<SaveEnd> {
  const { streamed } = file
  if (file.size <= SAVED_WHOLE_BYTES || streamed === undefined) return saveBlob(file.name, await file.blob())
  return saveStreamed(streamed.cid, savedOf(file), progress, heavy)
}

/** Saves files as one zip file, made on the way. To be called on a click. */
export async function saveZip(
  name: string,
  cid: string,
  files: readonly SavedFile[],
  progress: Progress,
  { heavy = false } = {},
): Promise<SaveEnd> {
  const paths = safePaths(files.map((file) => file.name))
  const members = files.map((file, i) => ({ path: paths[i] ?? file.name, size: file.size, read: savedOf(file).read }))
  const { size, read } = zip(members, new Date())
  return saveStreamed(cid, { name: `${name}.zip`, size, read: async (signal) => read(signal) }, progress, heavy)
}

async function saveStreamed(cid: string, saved: Saved, progress: Progress, heavy: boolean): Promise<SaveEnd> {
  if (canPickFile()) return saveByPicker(saved, progress)
  const tap = await openTap()
  if (tap !== null) return saveByWorker(tap, cid, saved, progress)
  if (saved.size > MEMORY_BYTES_MAX && !heavy) throw new TooHeavy()
  return saveByMemory(saved, progress)
}

/** A file as it is read for saving: in its order, and not before what somebody watches. */
export function savedOf({ name, size, blob, streamed }: SavedFile): Saved {
  return {
    name,
    size,
    async read(signal) {
      if (streamed === undefined) return (await blob()).stream()
      const file = await streamed.open({ signal })
      return file.read(0, file.size, { signal, urgent: false })
    },
  }
}
