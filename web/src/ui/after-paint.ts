/** How long to wait for a paint that may not come: a tab in the background paints nothing. */
const AT_LATEST_MS = 1000

let painted: Promise<void> | null = null

/** Resolves when something has been painted for the first time: what is fetched from then on keeps nobody waiting. */
export function afterPaint(): Promise<void> {
  return (painted ??= new Promise((resolve) => {
    setTimeout(resolve, AT_LATEST_MS)
    if (!PerformanceObserver.supportedEntryTypes.includes('paint')) {
      requestAnimationFrame(() => setTimeout(resolve))
      return
    }
    new PerformanceObserver((list) => {
      if (list.getEntriesByName('first-contentful-paint').length > 0) resolve()
    }).observe({ type: 'paint', buffered: true })
  }))
}
