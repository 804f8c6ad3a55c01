import { parseKeyInput } from '@watchfire/pages/links'
import { navigate } from '../ui/location.ts'
import { pageAddress } from '@watchfire/pages/addresses'
import { page as text } from '../messages/page.ts'
import { LinkForm } from './LinkForm.tsx'

interface LockedProps {
  cid: string
  filename: string | null
  /** The problem with the key or the page; `null` without a key. */
  reason: string | null
}

/** Shown in place of a private page that is not open: the reason, and a field for the link or key. */
export function LockedView({ cid, filename, reason }: LockedProps) {
  const open = (input: string) => {
    const key = parseKeyInput(input)
    if (key === null) return text('noKey')
    navigate(pageAddress(cid, filename, key))
    return null
  }
  return (
    <section class="plain locked" aria-labelledby="locked">
      <h1 id="locked">{text(reason === null ? 'keyless' : 'closed')}</h1>
      <p role="alert">{reason ?? text('keylessWhy')}</p>
      <p>{text('keepUnread')}</p>
      <LinkForm label={text('key')} action={text('open')} enterkeyhint="go" isFirst use={open} />
    </section>
  )
}
