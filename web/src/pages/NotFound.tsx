import { useEffect } from 'preact/hooks'
import { Ridge } from '../ui/Ridge.tsx'
import { wearFace } from '../ui/tab.ts'

export function NotFound({ path }: { path: string }) {
  useEffect(() => wearFace('Nothing here · Watchfire', 'dark'), [])
  return (
    <section class="plain">
      <h1>Nothing burns here</h1>
      <p>
        There is no <code>{path}</code> on this server. Links to pages look like <code>/p/…</code>.
      </p>
      <p>
        <a class="button" href="/">
          Light a page
        </a>
      </p>
      <Ridge fires={0} />
    </section>
  )
}
