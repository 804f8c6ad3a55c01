/** Whether the system has a share sheet that takes this link. */
export function canShare(url: string): boolean {
  return typeof navigator.share === 'function' && (typeof navigator.canShare !== 'function' || navigator.canShare({ url }))
}

/** Opens the share sheet of the system. */
export async function share(url: string, title: string): Promise<void> {
  try {
    await navigator.share({ title, url })
  } catch {
    // Cancelled or not allowed; the link can still be copied.
  }
}
