import { describe, expect, it } from 'vitest'
import { ScreenWakeLock } from './screen-wake-lock.ts'

function phone() {
  let isVisible = true
  let refuses = false
  let requests = 0
  const held = new Set<() => void>()
  const locks = {
    async request() {
      requests++
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
  const wakeLock = new ScreenWakeLock({ locks, isVisible: () => isVisible })
  return {
    wakeLock,
    held,
    requests: () => requests,
    refuse: (does: boolean) => (refuses = does),
    show(visible: boolean) {
      isVisible = visible
      // As browsers do when the page is hidden.
      if (!visible) for (const letGo of [...held]) letGo()
      wakeLock.update()
    },
  }
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('the screen', () => {
  it('is locked once while that is wanted, and released afterwards', async () => {
    const { wakeLock, held, requests } = phone()
    wakeLock.setWanted(true)
    wakeLock.setWanted(true)
    await settled()
    expect([held.size, requests(), wakeLock.isHeld.value]).toEqual([1, 1, true])
    wakeLock.setWanted(false)
    await settled()
    expect([held.size, wakeLock.isHeld.value]).toEqual([0, false])
  })

  it('is locked again when the page becomes visible', async () => {
    const { wakeLock, held, show } = phone()
    wakeLock.setWanted(true)
    await settled()
    show(false)
    await settled()
    expect([held.size, wakeLock.isHeld.value]).toEqual([0, false])
    show(true)
    await settled()
    expect([held.size, wakeLock.isHeld.value]).toEqual([1, true])
  })

  it('is released when it is no longer wanted by the time the browser agrees', async () => {
    const { wakeLock, held } = phone()
    wakeLock.setWanted(true)
    wakeLock.setWanted(false)
    await settled()
    await settled()
    expect(held.size).toBe(0)
  })

  it('may be refused, and is requested again when the page becomes visible', async () => {
    const { wakeLock, held, refuse, show } = phone()
    refuse(true)
    wakeLock.setWanted(true)
    await settled()
    expect(wakeLock.isHeld.value).toBe(false)
    refuse(false)
    show(true)
    await settled()
    expect(held.size).toBe(1)
  })

  it('is left alone where the browser has no wake lock', async () => {
    const wakeLock = new ScreenWakeLock({ locks: null, isVisible: () => true })
    wakeLock.setWanted(true)
    await settled()
    expect([wakeLock.isPossible, wakeLock.isHeld.value]).toEqual([false, false])
  })
})
