import { useEffect, useRef, useState } from 'preact/hooks'
import { page } from '../messages/page.ts'
import { copyText } from './share.ts'

const THANKED_MS = 2000

/** Whether to thank for a press of a button, which is for a short time after each call of the function. */
export function useThanks(): [boolean, () => void] {
  const [isThanked, setThanked] = useState(false)
  useEffect(() => {
    if (!isThanked) return
    const timer = setTimeout(() => setThanked(false), THANKED_MS)
    return () => clearTimeout(timer)
  }, [isThanked])
  return [isThanked, () => setThanked(true)]
}

/** The link, to read, select or copy. */
export function CopyLink({ link, onCopied }: { link: string; onCopied?: () => void }) {
  const field = useRef<HTMLInputElement>(null)
  const [isThanked, thank] = useThanks()
  const copy = async () => {
    field.current?.select()
    // Without the clipboard API, the browser copies the selected field.
    if (!(await copyText(link)) && !document.execCommand('copy')) return
    thank()
    onCopied?.()
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
        <span aria-live="polite">{page(isThanked ? 'copied' : 'copy')}</span>
      </button>
    </>
  )
}
