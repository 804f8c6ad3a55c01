import { effect, signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'

const KEY = 'theme'

export const theme = signal<Theme>('system')

/** The next theme, for a switch with one button. */
export function nextTheme(current: Theme): Theme {
  switch (current) {
    case 'system':
      return 'light'
    case 'light':
      return 'dark'
    case 'dark':
      return 'system'
  }
}

/** Applies the theme and stores the choice. */
export function applyTheme(): void {
  const stored = remembered()
  if (stored === 'light' || stored === 'dark') theme.value = stored
  effect(() => {
    if (theme.value === 'system') delete document.documentElement.dataset['theme']
    else document.documentElement.dataset['theme'] = theme.value
    remember(theme.value)
  })
}

// Storage throws when the browser forbids it; the choice then lasts as long as the tab.
function remembered(): string | null {
  try {
    return localStorage.getItem(KEY)
  } catch {
    return null
  }
}

function remember(chosen: Theme): void {
  try {
    if (chosen === 'system') localStorage.removeItem(KEY)
    else localStorage.setItem(KEY, chosen)
  } catch {
    return
  }
}
