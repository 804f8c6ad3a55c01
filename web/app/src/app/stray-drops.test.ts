import { describe, expect, it } from 'vitest'
import { refuseStrayDrops } from './stray-drops.ts'

function dragged(type: string, types: readonly string[]) {
  return Object.assign(new Event(type, { cancelable: true }), { dataTransfer: { types, dropEffect: 'copy' } })
}

describe('a file that is dropped where no view accepts it', () => {
  it('is not opened in place of the page', () => {
    const target = new EventTarget()
    refuseStrayDrops(target)
    for (const type of ['dragover', 'drop']) {
      const file = dragged(type, ['text/uri-list', 'Files'])
      target.dispatchEvent(file)
      expect(file.defaultPrevented).toBe(true)
      expect(file.dataTransfer.dropEffect).toBe('none')
      const words = dragged(type, ['text/plain'])
      target.dispatchEvent(words)
      expect(words.defaultPrevented).toBe(false)
    }
  })

  it('is accepted by a view that listens later', () => {
    const target = new EventTarget()
    refuseStrayDrops(target)
    target.addEventListener('dragover', (event) => ((event as DragEvent).dataTransfer!.dropEffect = 'copy'))
    const file = dragged('dragover', ['Files'])
    target.dispatchEvent(file)
    expect(file.dataTransfer.dropEffect).toBe('copy')
  })
})
