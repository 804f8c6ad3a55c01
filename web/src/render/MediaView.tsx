import { useState } from 'preact/hooks'
import { files as words } from '../words/files.ts'
import { useBlobAddress } from './awaited.ts'

interface MediaViewProps {
  blob: Blob
  kind: 'picture' | 'audio' | 'video'
  mime: string
  name: string
}

/** A picture, a sound or a film. SVG is shown as a picture, which runs no script and loads nothing. */
export function MediaView({ blob, kind, mime, name }: MediaViewProps) {
  const address = useBlobAddress(blob, mime)
  const [broken, setBroken] = useState(false)
  if (broken) return <p class="notice">{words('broken')}</p>
  if (address === null) return <p class="fetching" aria-busy="true" />
  const onError = () => setBroken(true)
  switch (kind) {
    case 'picture':
      return <img class="shown" src={address} alt={name} onError={onError} />
    case 'audio':
      return <audio class="shown" src={address} controls aria-label={name} onError={onError} />
    case 'video':
      return <video class="shown" src={address} controls playsInline aria-label={name} onError={onError} />
  }
}
