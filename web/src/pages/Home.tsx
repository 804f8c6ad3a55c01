import { useEffect } from 'preact/hooks'
import { afterPaint } from '../ui/after-paint.ts'
import { deferred } from '../ui/deferred.tsx'
import type { Hearth } from '../ui/hearth.ts'
import { isKept } from '../ui/hearth.ts'
import { navigate } from '../ui/location.ts'
import { Ridge } from '../ui/Ridge.tsx'
import { pageAddress } from '../ui/route.ts'
import type { Site } from '../ui/site.ts'
import { home } from '../words/home.ts'
import { wearFace } from '../ui/tab.ts'
import { Composer } from './Composer.tsx'
import { LimitsTold } from './LimitsTold.tsx'

const KeptPages = deferred(() => import('./KeptPages.tsx').then(({ KeptPages }) => KeptPages))

export function Home({ site, hearth }: { site: Site; hearth: Hearth }) {
  useEffect(() => wearFace('Watchfire', 'lit'), [])
  useEffect(() => void afterPaint().then(() => site.prepare()), [site])
  return (
    <div class="home">
      <h1>{home('title')}</h1>
      <p class="lead">{home('lead')}</p>
      <Composer
        site={site}
        onLit={(session, filename) => {
          hearth.keep(session, filename)
          navigate(pageAddress(session.cid, filename, session.key.value))
        }}
      />
      {hearth.kept.value.some(isKept) && <KeptPages hearth={hearth} />}
      <footer class="small">
        <LimitsTold limits={site.limits.value} />
        <p>
          {home('stores')} <a href="/chat">{home('chat')}</a>
          {' · '}
          <a href="/sprites/meadow">{home('sprites')}</a>
        </p>
      </footer>
      <Ridge fires={site.visitors.value ?? 0} />
    </div>
  )
}
