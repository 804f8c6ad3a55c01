/** How long to wait for a paint that may not come: a tab in the background paints nothing. */
const AT_LATEST_MS = 500

/** Resolves when what was rendered in this turn has been painted. */
export function afterPaint(): Promise<void> {
  return new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve))
    setTimeout(resolve, AT_LATEST_MS)
  })
}
