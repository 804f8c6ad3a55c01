import { useEffect, useRef, useState } from 'preact/hooks'
import { files as words } from '../words/files.ts'

/** Long enough for a browser to begin reading what it saves. */
const READ_MS = 60_000

interface SaveLinkProps {
  name: string
  blob: () => Promise<Blob>
  strong?: boolean
}

/** Saves a file to the disk of its reader. */
export function SaveLink({ name, blob, strong = false }: SaveLinkProps) {
  const [failed, setFailed] = useState(false)
  const saving = useRef(false)
  useEffect(() => setFailed(false), [name])
  const save = async () => {
    if (saving.current) return
    saving.current = true
    try {
      // Whatever the file says it is, saving treats it as bytes.
      const address = URL.createObjectURL(new Blob([await blob()], { type: 'application/octet-stream' }))
      const link = document.createElement('a')
      link.href = address
      link.download = name
      link.click()
      setTimeout(() => URL.revokeObjectURL(address), READ_MS)
    } catch {
      setFailed(true)
    } finally {
      saving.current = false
    }
  }
  return (
    <button type="button" class={strong ? 'strong' : ''} aria-label={words('saveOne', { name })} onClick={() => void save()}>
      {words(failed ? 'notSaved' : 'save')}
    </button>
  )
}
