import { useEffect, useRef, useState } from 'preact/hooks'
import { page } from '../messages/page.ts'

const THANKED_MS = 2000

/** The link, to read, select or copy. */
export function CopyLink({ link }: { link: string }) {
  const field = useRef<HTMLInputElement>(null)
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), THANKED_MS)
    return () => clearTimeout(timer)
  }, [copied])
  const copy = async () => {
    field.current?.select()
    setCopied(await putOnClipboard(link))
  }
  return (
    <>
      <input
        ref={field}
        class="link"
        dir="ltr"
        aria-label={page('link')}
        readOnly
        value={link}
        onFocus={(event) => event.currentTarget.select()}
      />
      <button type="button" class="strong" onClick={() => void copy()}>
        <span aria-live="polite">{page(copied ? 'copied' : 'copy')}</span>
      </button>
    </>
  )
}

/** Copies the text; falls back to copying the selected field when there is no clipboard API. */
async function putOnClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return document.execCommand('copy')
  }
}
