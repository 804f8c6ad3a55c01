import { useEffect } from 'preact/hooks'
import type { Hearth } from '../ui/hearth.ts'
import { navigate } from '../ui/location.ts'
import { Ridge } from '../ui/Ridge.tsx'
import { pageAddress } from '../ui/route.ts'
import type { Site } from '../ui/site.ts'
import { wearFace } from '../ui/tab.ts'
import { Composer } from './Composer.tsx'
import { KeptPages } from './KeptPages.tsx'
import { LimitsTold } from './LimitsTold.tsx'

export function Home({ site, hearth }: { site: Site; hearth: Hearth }) {
  useEffect(() => wearFace('Watchfire', 'lit'), [])
  useEffect(() => site.prepare(), [site])
  return (
    <div class="home">
      <h1>A page that burns as long as someone watches it</h1>
      <p class="lead">
        Write something or drop files, and share the link. The page lives in the browsers that have
        it open; when the last one closes, it is gone.
      </p>
      <Composer
        site={site}
        onLit={(session, filename) => {
          hearth.keep(session, filename)
          navigate(pageAddress(session.cid, filename))
        }}
      />
      <KeptPages hearth={hearth} />
      <footer class="small">
        <LimitsTold limits={site.limits.value} />
        <p>
          This server introduces people to each other and stores nothing.{' '}
          <a href="/chat">Chat with who is here</a>
          {' · '}
          <a href="/sprites/meadow">Throw sprites at them</a>
        </p>
      </footer>
      <Ridge fires={site.visitors.value ?? 0} />
    </div>
  )
}
