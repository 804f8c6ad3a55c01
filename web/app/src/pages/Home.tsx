import { useEffect } from 'preact/hooks'
import { afterPaint } from '../ui/after-paint.ts'
import { lazy, lazyAfterPaint } from '../ui/lazy.tsx'
import type { OpenPages } from '../ui/open-pages.ts'
import { isKept } from '../ui/open-pages.ts'
import { navigate } from '../ui/location.ts'
import { pageAddress } from '@watchfire/pages/addresses'
import type { Site } from '../ui/site.ts'
import { home } from '../messages/home.ts'
import { Composer } from './Composer.tsx'

const Landscape = lazyAfterPaint(() => import('../ui/Landscape.tsx').then(({ Landscape }) => Landscape))
const LimitsList = lazy(() => import('./LimitsList.tsx').then(({ LimitsList }) => LimitsList))
const KeptPages = lazy(() => import('./KeptPages.tsx').then(({ KeptPages }) => KeptPages))

export function Home({ site, openPages }: { site: Site; openPages: OpenPages }) {
  useEffect(() => void afterPaint().then(() => site.prepare()), [site])
  return (
    <div class="home">
      <h1>{home('title')}</h1>
      <p class="lead">{home('lead')}</p>
      <Composer
        site={site}
        openPages={openPages}
        onCreate={(session, filename) => {
          openPages.keep(session, filename)
          navigate(pageAddress(session.cid, filename, session.key.value))
        }}
      />
      {openPages.list.value.some(isKept) && <KeptPages openPages={openPages} />}
      <footer class="small">
        {site.limits.value !== null && <LimitsList limits={site.limits.value} />}
        <p>
          {home('stores')}{' '}
          {site.hasRooms.value && (
            <>
              <a href="/chat">{home('chat')}</a> ·{' '}
            </>
          )}
          <a href="/sprites/meadow">{home('sprites')}</a>
        </p>
      </footer>
      <Landscape count={site.visitors.value ?? 0} />
    </div>
  )
}
