import { useEffect } from 'preact/hooks'
import { Landscape } from '../ui/Landscape.tsx'
import { shell } from '../messages/shell.ts'
import { showTabStatus } from '../ui/tab-status.ts'

export function NotFound({ path }: { path: string }) {
  useEffect(() => showTabStatus(shell('nowhereTitle'), 'unavailable'), [])
  return (
    <section class="plain">
      <h1>{shell('nowhere')}</h1>
      <p>
        {shell.withNodes('nowhereWhy', {
          path: <code translate={false}>{path}</code>,
          example: <code translate={false}>/p/…</code>,
        })}
      </p>
      <p>
        <a class="button" href="/">
          {shell('createOne')}
        </a>
      </p>
      <Landscape count={0} />
    </section>
  )
}
