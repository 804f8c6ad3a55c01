/** Whether the system has a share sheet that takes this link. */
export function canShare(url: string): boolean {
  return typeof navigator.share === 'function' && (typeof navigator.canShare !== 'function' || navigator.canShare({ url }))
}

/** Opens the share sheet of the system. Returns whether the link was shared: otherwise it can still be copied. */
export async function share(url: string, title: string): Promise<boolean> {
  try {
    await navigator.share({ title, url })
    return true
  } catch {
    return false
  }
}

/** Puts a text on the clipboard. Returns whether it is there: outside a secure context, it is not. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return false
  }
}
