import { useEffect, useMemo, useRef } from 'preact/hooks'
import { Home } from '../pages/Home.tsx'
import { shell } from '../messages/shell.ts'
import { afterPaint } from '../ui/after-paint.ts'
import { Banner } from './Banner.tsx'
import { lazy } from '../ui/lazy.tsx'
import { Header } from './Header.tsx'
import { OpenPages, wouldEnd } from '../ui/open-pages.ts'
import { followLink, route } from '../ui/location.ts'
import type { Site } from '../ui/site.ts'

const loadPage = () => import('./whole-page.ts').then(({ PageView }) => PageView)
const PageView = lazy(loadPage)
const NotFound = lazy(() => import('../pages/NotFound.tsx').then(({ NotFound }) => NotFound))
const KeptPagesView = lazy(() => import('../pages/KeptPagesView.tsx').then(({ KeptPagesView }) => KeptPagesView))
const SpritesPage = lazy(() => import('../sprites/index.ts').then(({ SpritesPage }) => SpritesPage))
const ChatPage = lazy(() => import('../chat/index.ts').then(({ ChatPage }) => ChatPage))

/** The whole application for one site. */
export function App({ site }: { site: Site }) {
  const openPages = useMemo(() => new OpenPages(site), [site])
  useEffect(() => {
    // Loaded ahead, so that a page created here can be shown even if the server goes away.
    void afterPaint()
      .then(loadPage)
      .then(() => import('../pages/had-pages.ts'))
      .then(({ followPages }) => followPages(openPages))
      .catch(() => undefined)
    const warn = (event: BeforeUnloadEvent) => {
      if (wouldEnd(openPages.list.peek())) event.preventDefault()
    }
    addEventListener('beforeunload', warn)
    return () => removeEventListener('beforeunload', warn)
  }, [openPages])
  const main = useRef<HTMLElement>(null)
  useFollowedFocus(main)
  const skip = (event: MouseEvent) => {
    // Not through the address, whose fragment belongs to the page.
    event.preventDefault()
    main.current?.focus()
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions lint/a11y/useKeyWithClickEvents: the links inside it make clicks of keys too
    <div class="app" onClick={followLink}>
      {/* biome-ignore lint/a11y/useValidAnchor: without script, the address alone moves the focus */}
      <a class="skip" href="#main" onClick={skip}>
        {shell('skip')}
      </a>
      <Header site={site} openPages={openPages} />
      <Banner site={site} />
      <main id="main" ref={main} tabIndex={-1}>
        <Place site={site} openPages={openPages} />
      </main>
    </div>
  )
}

/** Moves the focus to the start of the main content after a navigation, for keyboards and screen readers. */
function useFollowedFocus(main: { current: HTMLElement | null }): void {
  const before = useRef(route.peek())
  const now = route.value
  useEffect(() => {
    if (before.current === now) return
    before.current = now
    // A view that has set the focus itself, such as an error, keeps it. A link that was followed does not: the view begins above it.
    const { activeElement } = document
    const isFollowed = activeElement instanceof HTMLAnchorElement
    if (isFollowed || !main.current?.contains(activeElement)) main.current?.focus({ preventScroll: true })
  }, [now, main])
}

function Place({ site, openPages }: { site: Site; openPages: OpenPages }) {
  const place = route.value
  switch (place.kind) {
    case 'home':
      return <Home site={site} openPages={openPages} />
    case 'kept-pages':
      return <KeptPagesView site={site} openPages={openPages} />
    case 'page':
      return (
        <PageView
          key={place.cid}
          place={place}
          openPages={openPages}
          channels={site.channels}
          sitesBelow={site.sitesBelow.value}
          report={site.report.value}
        />
      )
    case 'chat':
      return <ChatPage key={place.room} site={site} room={place.room} />
    case 'sprites':
      return <SpritesPage key={place.grid} site={site} openPages={openPages} grid={place.grid} />
    case 'unknown':
      return <NotFound path={place.path} />
  }
}
