/** Defines the element `<watch-fire>`. */
import { WatchFire } from './watch-fire.ts'

export { WatchFire, type WatchFireStatus } from './watch-fire.ts'

declare global {
  interface HTMLElementTagNameMap {
    'watch-fire': WatchFire
  }
}

// A server has no elements. A page may load this module twice, in two versions.
if (globalThis.customElements?.get('watch-fire') === undefined) globalThis.customElements?.define('watch-fire', WatchFire)
