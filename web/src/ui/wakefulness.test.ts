import { describe, expect, it } from 'vitest'
import { Wakefulness } from './wakefulness.ts'

function phone() {
  let isVisible = true
  let refuses = false
  let asked = 0
  const held = new Set<() => void>()
  const locks = {
    async request() {
      asked++
      if (refuses) throw new Error('no')
      let released = () => {}
      const let_go = () => {
        held.delete(let_go)
        released()
      }
      held.add(let_go)
      return {
        release: async () => let_go(),
        addEventListener: (_: 'release', listener: () => void) => (released = listener),
      }
    },
  }
  const wakefulness = new Wakefulness({ locks, isVisible: () => isVisible })
  return {
    wakefulness,
    held,
    asked: () => asked,
    refuse: (does: boolean) => (refuses = does),
    show(visible: boolean) {
      isVisible = visible
      // As browsers do when the page is hidden.
      if (!visible) for (const letGo of [...held]) letGo()
      wakefulness.look()
    },
  }
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('the screen', () => {
  it('is held on once while it is wanted, and let go afterwards', async () => {
    const { wakefulness, held, asked } = phone()
    wakefulness.want(true)
    wakefulness.want(true)
    await settled()
    expect([held.size, asked(), wakefulness.isHeld.value]).toEqual([1, 1, true])
    wakefulness.want(false)
    await settled()
    expect([held.size, wakefulness.isHeld.value]).toEqual([0, false])
  })

  it('is held on again when the page is shown again', async () => {
    const { wakefulness, held, show } = phone()
    wakefulness.want(true)
    await settled()
    show(false)
    await settled()
    expect([held.size, wakefulness.isHeld.value]).toEqual([0, false])
    show(true)
    await settled()
    expect([held.size, wakefulness.isHeld.value]).toEqual([1, true])
  })

  it('is let go when it is not wanted any more by the time the browser agrees', async () => {
    const { wakefulness, held } = phone()
    wakefulness.want(true)
    wakefulness.want(false)
    await settled()
    await settled()
    expect(held.size).toBe(0)
  })

  it('may be refused, and is asked for again when the page is shown', async () => {
    const { wakefulness, held, refuse, show } = phone()
    refuse(true)
    wakefulness.want(true)
    await settled()
    expect(wakefulness.isHeld.value).toBe(false)
    refuse(false)
    show(true)
    await settled()
    expect(held.size).toBe(1)
  })

  it('is left alone where the browser has no say in it', async () => {
    const wakefulness = new Wakefulness({ locks: null, isVisible: () => true })
    wakefulness.want(true)
    await settled()
    expect([wakefulness.isPossible, wakefulness.isHeld.value]).toEqual([false, false])
  })
})
