import { Flame } from './Flame.tsx'
import { visitorsSentence } from './sentences.ts'
import type { Site } from './site.ts'
import { nextTheme, theme } from './theme.ts'

const THEME_WORDS = { system: 'as the system', light: 'light', dark: 'dark' }

export function Header({ site }: { site: Site }) {
  const visitors = site.visitors.value
  return (
    <header class="top">
      <a class="brand" href="/">
        <Flame fire="lit" size={26} />
        Watchfire
      </a>
      <p class="visitors" role="status">
        {visitors !== null && visitorsSentence(visitors)}
      </p>
      <button
        type="button"
        class="quiet icon"
        aria-label={`Colours: ${THEME_WORDS[theme.value]}. Change`}
        title={`Colours: ${THEME_WORDS[theme.value]}`}
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
