import { shell } from '../messages/shell.ts'
import { Flame } from '../ui/Flame.tsx'
import type { OpenPages } from '../ui/open-pages.ts'
import { isKept } from '../ui/open-pages.ts'
import { route } from '../ui/location.ts'
import { KEPT_PAGES_ADDRESS } from '../ui/route.ts'
import type { Site } from '../ui/site.ts'
import { nextTheme, theme } from './theme.ts'

export function Header({ site, openPages }: { site: Site; openPages: OpenPages }) {
  const visitors = site.visitors.value
  const place = route.value
  const kept = openPages.list.value.filter(isKept)
  // A reader of one page came to read it: its own line says all about it.
  const isAlone = place.kind === 'page' && kept.every(({ session }) => session.cid === place.cid)
  const shown = shell(theme.value)
  return (
    <header class="top">
      <a class="brand" href="/">
        <Flame availability="available" size={26} />
        <span translate={false}>Watchfire</span>
      </a>
      {kept.length > 0 && !isAlone && (
        <a class="kept-count" href={KEPT_PAGES_ADDRESS}>
          {shell('open', { count: kept.length })}
        </a>
      )}
      <p class="visitors" role="status">
        {visitors !== null && place.kind !== 'page' && shell('visitors', { count: visitors })}
      </p>
      <button
        type="button"
        class="quiet icon"
        aria-label={shell('changeColours', { theme: shown })}
        title={shell('changeColours', { theme: shown })}
        onClick={() => (theme.value = nextTheme(theme.value))}
      >
        <ThemeIcon />
      </button>
    </header>
  )
}

function ThemeIcon() {
  return (
    <svg width="20" height="20" viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.6" aria-hidden="true">
      <circle cx="10" cy="10" r="7" />
      {theme.value === 'light' && <circle cx="10" cy="10" r="3" fill="currentColor" stroke="none" />}
      {theme.value === 'dark' && <circle cx="10" cy="10" r="7" fill="currentColor" />}
      {theme.value === 'system' && <path d="M10 3a7 7 0 0 1 0 14z" fill="currentColor" stroke="none" />}
    </svg>
  )
}
