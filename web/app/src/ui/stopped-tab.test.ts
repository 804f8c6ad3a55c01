import { describe, expect, it } from 'vitest'
import { followStops } from './stopped-tab.ts'

describe('a tab that the browser stopped', () => {
  it('is connected again only when the server has answered since the latest stop', async () => {
    const page = new EventTarget()
    const answers: (() => void)[] = []
    const stop = followStops(page, () => new Promise((resolve) => answers.push(resolve)))
    expect(stop.value).toBe('none')
    page.dispatchEvent(new Event('resume'))
    expect(stop.value).toBe('checking')
    page.dispatchEvent(new Event('resume'))
    answers[0]?.()
    await Promise.resolve()
    expect(stop.value).toBe('checking')
    answers[1]?.()
    await Promise.resolve()
    expect(stop.value).toBe('over')
  })

  it('stays unconnected while the server cannot be asked', async () => {
    const page = new EventTarget()
    const stop = followStops(page, () => Promise.reject(new Error('no')))
    page.dispatchEvent(new Event('resume'))
    await Promise.resolve()
    expect(stop.value).toBe('checking')
  })
})
