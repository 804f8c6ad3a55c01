import { useEffect, useRef, useState } from 'preact/hooks'
import { kindOfName, pictureType, SNIFFED_BYTES } from '@watchfire/pages/files'
import { Turns, wholeOf } from '../files/reading.ts'
import type { DirectoryFile } from '../ui/site.ts'
import { FileIcon } from './FileIcon.tsx'

/** Thumbnails that are loaded at the same time. */
const turns = new Turns(4)
/** A larger picture has an icon instead. SVG takes far longer to draw than to read. */
const PICTURE_BYTES_MAX = 16 << 20
const SVG_BYTES_MAX = 256 << 10
/** A picture that scrolls by faster is not loaded, in milliseconds. */
const STAYS_MS = 150

/** Whether a file is shown as a small picture, by its name. */
function hasThumbnail({ path, size }: DirectoryFile): boolean {
  const kind = kindOfName(path)
  return kind?.kind === 'picture' && size > 0 && size <= (kind.mime === 'image/svg+xml' ? SVG_BYTES_MAX : PICTURE_BYTES_MAX)
}

/** A picture in a small size, loaded while it is on the screen; an icon until then, and for all other files. */
export function Thumbnail({ file }: { file: DirectoryFile }) {
  const place = useRef<HTMLSpanElement>(null)
  const address = useThumbnail(file, place)
  const [broken, setBroken] = useState(false)
  return (
    <span ref={place} class="thumbnail">
      {address === null || broken ? (
        <FileIcon path={file.path} />
      ) : (
        <img src={address} alt="" decoding="async" onError={() => setBroken(true)} />
      )}
    </span>
  )
}

function useThumbnail(file: DirectoryFile, place: { readonly current: Element | null }): string | null {
  const [address, setAddress] = useState<string | null>(null)
  useEffect(() => {
    if (!hasThumbnail(file) || place.current === null) return
    let stop = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    let made: string | null = null
    const load = async ({ signal }: AbortController) => {
      const blob = await turns.take(() => pictureOf(file, signal), signal)
      if (blob === null || signal.aborted) return
      watching.disconnect()
      made = URL.createObjectURL(blob)
      setAddress(made)
    }
    const end = () => {
      clearTimeout(timer)
      stop.abort(new DOMException('the picture is out of view', 'AbortError'))
    }
    const watching = new IntersectionObserver((changes) => {
      end()
      if (changes.at(-1)?.isIntersecting !== true) return
      stop = new AbortController()
      // A picture that cannot be loaded keeps its icon. Opening it reports the reason.
      timer = setTimeout((now: AbortController) => load(now).catch(() => undefined), STAYS_MS, stop)
    })
    watching.observe(place.current)
    return () => {
      watching.disconnect()
      end()
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
