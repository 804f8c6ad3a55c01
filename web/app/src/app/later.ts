import { registerShareTarget } from './share-target.ts'
import { keepPressesSteady } from './steady-presses.ts'

const IDLE_MS = 3000

/** Begins what the first paint does not need. */
export function beginLater(): void {
  keepPressesSteady(window)
  setTimeout(() => {
    sweepDisk()
    registerShareTarget()
  }, IDLE_MS)
}

/** A closed tab cannot remove its blocks from disk, so the next tab does that when it is idle. */
function sweepDisk(): void {
  try {
    if (localStorage.getItem('watchfire:disk') === null) return
  } catch {
    // A browser without storage has nothing to remove.
    return
  }
  import('@watchfire/pages/disk').then(
    ({ sweep }) => sweep(),
    () => undefined,
  )
}
