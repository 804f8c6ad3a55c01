import { signal } from '@preact/signals'

const KEY = 'watchfire:hides-address'

/** Whether the pages that are opened from now on make no direct connections, so that other viewers do not learn the address of this browser. */
export const isAddressHidden = signal(remembered())

// The person has switched in another tab.
globalThis.addEventListener?.('storage', () => {
  isAddressHidden.value = remembered()
})

/** Sets and stores the choice, for all tabs of this browser. */
export function hideAddress(isHidden: boolean): void {
  isAddressHidden.value = isHidden
  try {
    if (isHidden) localStorage.setItem(KEY, 'yes')
    else localStorage.removeItem(KEY)
  } catch {
    // Without storage, the choice lasts as long as the tab.
  }
}

function remembered(): boolean {
  try {
    return localStorage.getItem(KEY) !== null
  } catch {
    return false
  }
}
