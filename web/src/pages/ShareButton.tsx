import { page } from '../words/page.ts'

/** Hands the link to another application, where the system has a sheet for that. */
export function ShareButton({ link, title }: { link: string; title: string }) {
  if (typeof navigator.share !== 'function') return null
  const share = async () => {
    try {
      await navigator.share({ title, url: link })
    } catch {
      // Closed without choosing, or not allowed: the link is still there to be copied.
    }
  }
  return (
    <button type="button" onClick={() => void share()}>
      {page('share')}
    </button>
  )
}
