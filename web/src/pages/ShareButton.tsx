import { page } from '../messages/page.ts'

/** Opens the share sheet of the system, where there is one. */
export function ShareButton({ link, title }: { link: string; title: string }) {
  if (typeof navigator.share !== 'function') return null
  const share = async () => {
    try {
      await navigator.share({ title, url: link })
    } catch {
      // Cancelled or not allowed; the link can still be copied.
    }
  }
  return (
    <button type="button" onClick={() => void share()}>
      {page('share')}
    </button>
  )
}
