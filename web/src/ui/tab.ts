/** How the fire stands, for whatever shows it: the flame, the tab's icon, the light on the page. */
export type Fire = 'lit' | 'kindling' | 'dark'

/** What the tab says of itself in a row of tabs. */
export interface TabFace {
  fire: Fire
  name: string | null
  /** Percent that has come, while it comes. */
  percent: number | null
  watching: number | null
}

/** The title of the tab: first what changes, because tabs are narrow. */
export function tabTitle({ fire, name, percent, watching }: TabFace): string {
  const named = name ?? 'A page'
  switch (fire) {
    case 'kindling':
      return percent === null ? `${named} · Watchfire` : `${percent}% ${named} · Watchfire`
    case 'dark':
      return `Dark: ${named} · Watchfire`
    case 'lit':
      return watching === null ? `${named} · Watchfire` : `(${watching}) ${named} · Watchfire`
  }
}

const ICONS: Record<Fire, string> = {
  lit: '/favicon.svg',
  kindling: '/favicon-kindling.svg',
  dark: '/favicon-dark.svg',
}

/** Shows it: title, icon, and the light that the fire throws on the page. */
export function wearFace(title: string, fire: Fire): void {
  document.title = title
  document.documentElement.dataset['fire'] = fire
  const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]')
  if (icon !== null && icon.getAttribute('href') !== ICONS[fire]) icon.href = ICONS[fire]
}
