/**
 * Keeps the browser from opening a file that is dropped where no view accepts it: some browsers would leave the page for it,
 * and the tab would share nothing any more. Must be called before a view listens; a view that accepts files sets the effect
 * again.
 */
export function refuseStrayDrops(target: EventTarget): void {
  for (const type of ['dragover', 'drop']) {
    target.addEventListener(type, (event) => {
      const { dataTransfer } = event as DragEvent
      if (dataTransfer?.types.includes('Files') !== true) return
      event.preventDefault()
      dataTransfer.dropEffect = 'none'
    })
  }
}
