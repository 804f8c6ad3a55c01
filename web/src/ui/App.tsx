import { useEffect, useMemo } from 'preact/hooks'
import { Home } from '../pages/Home.tsx'
import { NotFound } from '../pages/NotFound.tsx'
import { deferred } from './deferred.tsx'
import { Header } from './Header.tsx'
import { Hearth, wouldEnd } from './hearth.ts'
import { followLink, route } from './location.ts'
import type { Site } from './site.ts'

const loadPage = () => import('../pages/PageView.tsx').then(({ PageView }) => PageView)
const PageView = deferred(loadPage)
const SpritesPage = deferred(() => import('../sprites/index.ts').then(({ SpritesPage }) => SpritesPage))
const ChatPage = deferred(() => import('../chat/index.ts').then(({ ChatPage }) => ChatPage))

/** The whole application, over one site. */
export function App({ site }: { site: Site }) {
  const hearth = useMemo(() => new Hearth(site), [site])
  useEffect(() => {
    // Fetched ahead: what is lit here must show even if the server goes away meanwhile.
    void loadPage().catch(() => undefined)
    const warn = (event: BeforeUnloadEvent) => {
      if (wouldEnd(hearth.kept.peek())) event.preventDefault()
    }
    addEventListener('beforeunload', warn)
    return () => removeEventListener('beforeunload', warn)
  }, [hearth])
  return (
    <div class="app" onClick={followLink}>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <Header site={site} />
      {site.connection.value === 'lost' && (
        <p class="banner" role="alert">
          The connection to the server is lost; trying again. What this tab holds stays here.
        </p>
      )}
      <main id="main" tabIndex={-1}>
        <Place site={site} hearth={hearth} />
      </main>
    </div>
  )
}

function Place({ site, hearth }: { site: Site; hearth: Hearth }) {
  const place = route.value
  switch (place.kind) {
    case 'home':
      return <Home site={site} hearth={hearth} />
    case 'page':
      return <PageView key={place.cid} place={place} hearth={hearth} />
    case 'chat':
      return <ChatPage key={place.room} site={site} room={place.room} />
    case 'sprites':
      return <SpritesPage key={place.plane} site={site} hearth={hearth} plane={place.plane} />
    case 'unknown':
      return <NotFound path={place.path} />
  }
}
