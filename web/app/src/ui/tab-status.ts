/** Whether the page in this tab is available, for the flame, the tab's icon and the background. */
export type Availability = 'available' | 'loading' | 'unavailable'

const ICONS: Record<Availability, string> = {
  available: '/favicon.svg',
  loading: '/favicon-loading.svg',
  unavailable: '/favicon-unavailable.svg',
}

/** Shows the status of the tab: title, icon and background. */
export function showTabStatus(title: string, availability: Availability): void {
  // Each write reaches the browser's own process, or makes the page compute its styles again.
  if (document.title !== title) document.title = title
  const { dataset } = document.documentElement
  if (dataset['availability'] !== availability) dataset['availability'] = availability
  const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]')
  if (icon !== null && icon.getAttribute('href') !== ICONS[availability]) icon.href = ICONS[availability]
}
