import { useEffect, useMemo, useRef } from 'preact/hooks'
import { Home } from '../pages/Home.tsx'
import { NotFound } from '../pages/NotFound.tsx'
import { shell } from '../words/shell.ts'
import { afterPaint } from './after-paint.ts'
import { Banner } from './Banner.tsx'
import { deferred } from './deferred.tsx'
import { Header } from './Header.tsx'
import { Hearth, wouldEnd } from './hearth.ts'
import { followLink, route } from './location.ts'
import type { Site } from './site.ts'

const loadPage = () => import('../pages/PageView.tsx').then(({ PageView }) => PageView)
const PageView = deferred(loadPage)
const HearthPage = deferred(() => import('../pages/HearthPage.tsx').then(({ HearthPage }) => HearthPage))
const SpritesPage = deferred(() => import('../sprites/index.ts').then(({ SpritesPage }) => SpritesPage))
const ChatPage = deferred(() => import('../chat/index.ts').then(({ ChatPage }) => ChatPage))

/** The whole application, over one site. */
export function App({ site }: { site: Site }) {
  const hearth = useMemo(() => new Hearth(site), [site])
  useEffect(() => {
    // Fetched ahead: what is lit here must show even if the server goes away meanwhile.
    void afterPaint().then(loadPage).catch(() => undefined)
    const warn = (event: BeforeUnloadEvent) => {
      if (wouldEnd(hearth.kept.peek())) event.preventDefault()
    }
    addEventListener('beforeunload', warn)
    return () => removeEventListener('beforeunload', warn)
  }, [hearth])
  const main = useRef<HTMLElement>(null)
  useFollowedFocus(main)
  const skip = (event: MouseEvent) => {
    // Not by the address, whose fragment is the page's.
    event.preventDefault()
    main.current?.focus()
  }
  return (
    <div class="app" onClick={followLink}>
      <a class="skip" href="#main" onClick={skip}>
        {shell('skip')}
      </a>
      <Header site={site} hearth={hearth} />
      <Banner site={site} />
      <main id="main" ref={main} tabIndex={-1}>
        <Place site={site} hearth={hearth} />
      </main>
    </div>
  )
}

/** Whoever goes to another place by keyboard, or hears it read, begins at its beginning. */
function useFollowedFocus(main: { current: HTMLElement | null }): void {
  const before = useRef(route.peek())
  const now = route.value
  useEffect(() => {
    if (before.current === now) return
    before.current = now
    // A place that has said where to begin, such as one that refuses, is left to it.
    if (!main.current?.contains(document.activeElement)) main.current?.focus({ preventScroll: true })
  }, [now, main])
}

function Place({ site, hearth }: { site: Site; hearth: Hearth }) {
  const place = route.value
  switch (place.kind) {
    case 'home':
      return <Home site={site} hearth={hearth} />
    case 'hearth':
      return <HearthPage site={site} hearth={hearth} />
    case 'page':
      return (
        <PageView
          key={place.cid}
          place={place}
          hearth={hearth}
          sitesBelow={site.sitesBelow.value}
          report={site.report.value}
        />
      )
    case 'chat':
      return <ChatPage key={place.room} site={site} room={place.room} />
    case 'sprites':
      return <SpritesPage key={place.plane} site={site} hearth={hearth} plane={place.plane} />
    case 'unknown':
      return <NotFound path={place.path} />
  }
}
