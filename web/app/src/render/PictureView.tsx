import { useState } from 'preact/hooks'
import { files as text } from '../messages/files.ts'
import { useObjectUrl } from '../ui/use-async.ts'

interface PictureViewProps {
  blob: Blob
  mime: string
  name: string
}

/** A picture. SVG is shown as an image as well, so it runs no script and loads nothing. */
export function PictureView({ blob, mime, name }: PictureViewProps) {
  const address = useObjectUrl(blob, mime)
  const [broken, setBroken] = useState(false)
  if (broken) return <p class="notice">{text('broken')}</p>
  if (address === null) return <p class="fetching" aria-busy="true" />
  return <img class="shown" src={address} alt={name} onError={() => setBroken(true)} />
}
