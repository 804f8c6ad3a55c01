/**
 * Registers the service worker of the app once it is installed, because the share sheet of a phone sends content to it. A page in
 * a browser tab registers it only when it plays or saves a file, or is to show a notification.
 */
export function registerShareTarget(): void {
  if (matchMedia('(display-mode: standalone)').matches) void register()
  addEventListener('appinstalled', () => void register())
}

async function register(): Promise<void> {
  try {
    await navigator.serviceWorker?.register('/worker.js', { scope: '/', updateViaCache: 'none' })
  } catch {
    // Without a worker the app receives nothing, and all else works.
  }
}
