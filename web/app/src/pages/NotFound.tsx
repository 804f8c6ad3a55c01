import '../style/page.css'
import { useEffect } from 'preact/hooks'
import { Landscape } from '../ui/Landscape.tsx'
import { nowhere } from '../messages/nowhere.ts'
import { navigate } from '../ui/location.ts'
import { parsePageLink } from '../ui/page-link.ts'
import { fileFragment, pageAddress } from '../ui/route.ts'
import { showTabStatus } from '../ui/tab-status.ts'
import { LinkForm } from './LinkForm.tsx'

/** Shown at an address without a view: how links look, and a field for the right one. */
export function NotFound({ path }: { path: string }) {
  useEffect(() => showTabStatus(nowhere('tab'), 'unavailable'), [])
  return (
    <section class="plain">
      <h1>{nowhere('title')}</h1>
      <p>
        {nowhere.withNodes('why', {
          path: <code translate={false}>{path}</code>,
          example: <code translate={false}>/p/…</code>,
        })}
      </p>
      <LinkForm label={nowhere('paste')} action={nowhere('open')} enterkeyhint="go" use={open} />
      <p>
        <a class="button" href="/">
          {nowhere('createOne')}
        </a>
      </p>
      <Landscape count={0} />
    </section>
  )
}

/** Opens the page of a link. Returns why it cannot, or `null`. */
function open(link: string): string | null {
  const page = parsePageLink(link, location.origin)
  if (page === null) return nowhere('noLink')
  const address = pageAddress(page.cid, page.filename, page.key)
  navigate(page.file === null ? address : `${address.replace(/#.*$/, '')}${fileFragment(page.file, page.key)}`)
  return null
}
