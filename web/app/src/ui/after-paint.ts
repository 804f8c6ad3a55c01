/** Longest wait for a paint; a background tab never paints. */
const AT_LATEST_MS = 1000

let painted: Promise<void> | null = null

/** Resolves after the first paint, so that later downloads do not delay it. */
export function afterPaint(): Promise<void> {
  painted ??= new Promise((resolve) => {
    setTimeout(resolve, AT_LATEST_MS)
    if (!PerformanceObserver.supportedEntryTypes.includes('paint')) {
      requestAnimationFrame(() => setTimeout(resolve))
      return
    }
    new PerformanceObserver((list) => {
      if (list.getEntriesByName('first-contentful-paint').length > 0) resolve()
    }).observe({ type: 'paint', buffered: true })
  })
  return painted
}
