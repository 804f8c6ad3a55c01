import { useState } from 'preact/hooks'
import { files as words } from '../words/files.ts'
import { useBlobAddress } from './awaited.ts'

interface PictureViewProps {
  blob: Blob
  mime: string
  name: string
}

/** A picture. SVG is shown as one too, which runs no script and loads nothing. */
export function PictureView({ blob, mime, name }: PictureViewProps) {
  const address = useBlobAddress(blob, mime)
  const [broken, setBroken] = useState(false)
  if (broken) return <p class="notice">{words('broken')}</p>
  if (address === null) return <p class="fetching" aria-busy="true" />
  return <img class="shown" src={address} alt={name} onError={() => setBroken(true)} />
}
