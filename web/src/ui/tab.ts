/** How the fire stands, for whatever shows it: the flame, the tab's icon, the light on the page. */
export type Fire = 'lit' | 'kindling' | 'dark'

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
