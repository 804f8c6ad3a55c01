// @vitest-environment happy-dom
import { render } from 'preact'
import { act } from 'preact/test-utils'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { useUnseen } from './use-unseen.ts'

function Shown({ count }: { count: number }) {
  return <>{useUnseen(count)}</>
}

describe('what came while nobody looked', () => {
  const place = document.createElement('div')
  const show = (count: number) => act(() => render(<Shown count={count} />, place))
  const hide = (isHidden: boolean) =>
    act(() => {
      vi.spyOn(document, 'hidden', 'get').mockReturnValue(isHidden)
      document.dispatchEvent(new Event('visibilitychange'))
    })
  afterEach(() => {
    render(null, place)
    vi.restoreAllMocks()
  })

  it('is counted from when the tab was hidden, until it is seen', async () => {
    await show(2)
    await show(3)
    expect(place.textContent).toBe('0')
    await hide(true)
    await show(5)
    expect(place.textContent).toBe('2')
    await hide(false)
    expect(place.textContent).toBe('0')
  })
})
