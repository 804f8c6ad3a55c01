import '../style/page.css'
import { useEffect } from 'preact/hooks'
import { Landscape } from '../ui/Landscape.tsx'
import { nowhere } from '../messages/nowhere.ts'
import { showTabStatus } from '../ui/tab-status.ts'
import { LinkForm } from './LinkForm.tsx'
import { openLink } from './open-link.ts'

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
      <LinkForm label={nowhere('paste')} action={nowhere('open')} enterkeyhint="go" use={openLink} />
      <p>
        <a class="button" href="/">
          {nowhere('createOne')}
        </a>
      </p>
      <Landscape count={0} />
    </section>
  )
}
