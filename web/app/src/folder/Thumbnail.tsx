import { useEffect, useState } from 'preact/hooks'
import { kindOfName, pictureType, SNIFFED_BYTES } from '@watchfire/pages/files'
import { Turns, wholeOf } from '../files/reading.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { FileIcon } from './FileIcon.tsx'

/** Thumbnails that are loaded at the same time. */
const turns = new Turns(4)
/** A larger picture has an icon instead. SVG takes far longer to draw than to read. */
const PICTURE_BYTES_MAX = 16 << 20
const SVG_BYTES_MAX = 256 << 10
/** A line that scrolls by faster loads nothing, in milliseconds. */
const STAYS_MS = 150

/** Whether a file is shown as a small picture, by its name. */
export function hasThumbnail({ path, size }: DirectoryFile): boolean {
  const kind = kindOfName(path)
  return kind?.kind === 'picture' && size > 0 && size <= (kind.mime === 'image/svg+xml' ? SVG_BYTES_MAX : PICTURE_BYTES_MAX)
}

/** A picture in the size of an icon, loaded while it is in view; an icon until then, and for all other files. */
export function Thumbnail({ file }: { file: DirectoryFile }) {
  const address = useThumbnail(file)
  const [broken, setBroken] = useState(false)
  if (address === null || broken) return <FileIcon path={file.path} />
  return <img class="thumbnail" src={address} alt="" loading="lazy" decoding="async" onError={() => setBroken(true)} />
}

function useThumbnail(file: DirectoryFile): string | null {
  const [address, setAddress] = useState<string | null>(null)
  useEffect(() => {
    if (!hasThumbnail(file)) return
    const stop = new AbortController()
    let made: string | null = null
    const load = async () => {
      const blob = await turns.take(() => pictureOf(file, stop.signal), stop.signal)
      if (blob === null || stop.signal.aborted) return
      made = URL.createObjectURL(blob)
      setAddress(made)
    }
    // A picture that cannot be loaded keeps its icon. Opening it reports the reason.
    const timer = setTimeout(() => load().catch(() => undefined), STAYS_MS)
    return () => {
      clearTimeout(timer)
      stop.abort(new DOMException('the picture is out of view', 'AbortError'))
      if (made !== null) URL.revokeObjectURL(made)
      setAddress(null)
    }
  }, [file])
  return address
}

async function pictureOf(file: DirectoryFile, signal: AbortSignal): Promise<Blob | null> {
  const blob = await wholeOf(file, signal)
  const mime = pictureType(file.path, new Uint8Array(await blob.slice(0, SNIFFED_BYTES).arrayBuffer()))
  return mime === null ? null : blob.slice(0, blob.size, mime)
}
