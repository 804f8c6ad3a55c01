import { useState } from 'preact/hooks'
import { files as text } from '../messages/files.ts'
import { isStreamedPicture } from '../streaming/media-types.ts'
import { usePlayerSource } from './player-source.ts'
import type { ShownFile } from '../files/reading.ts'

/** A smaller picture is one or two blocks, and is shown when it is complete. */
const STREAMED_BYTES_MIN = 1 << 20

interface PictureViewProps {
  file: ShownFile
  mime: string
  name: string
}

/** A picture, drawn as it arrives. SVG is shown as an image as well, so it runs no script and loads nothing. */
export function PictureView({ file, mime, name }: PictureViewProps) {
  const [whole, setWhole] = useState(file.size < STREAMED_BYTES_MIN || !isStreamedPicture(mime))
  const [broken, setBroken] = useState(false)
  const source = usePlayerSource(file, name, mime, whole)
  if (broken) return <p class="notice">{text('broken')}</p>
  if (source?.kind === 'failed') {
    return (
      <p class="notice bad" role="alert">
        {source.reason}
      </p>
    )
  }
  if (source === null || source.kind === 'waiting') return <p class="fetching" aria-busy="true" />
  // A stream can end early, for example when the browser stops the service worker. The whole file is tried then.
  const onError = () => (source.kind === 'stream' ? setWhole(true) : setBroken(true))
  return <img class="shown" src={source.address} alt={name} onError={onError} />
}
