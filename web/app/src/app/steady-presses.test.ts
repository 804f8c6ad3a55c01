// @vitest-environment happy-dom
import { describe, expect, it } from 'vitest'
import { keepPressesSteady } from './steady-presses.ts'

/** Where the button is at first: from 40 to 100 pixels, and from 40 to 60. */
const PLACE = { x: 40, y: 40, width: 60, height: 20 }

/** A button and a text beside it, the clicks that the button has had, and a layout that moves the button. */
function buttonWithText() {
  const place = document.createElement('div')
  place.innerHTML = '<button type="button"><b>Share</b></button><p>text</p>'
  document.body.append(place)
  keepPressesSteady(place)
  const [button, label, text] = ['button', 'b', 'p'].map((name) => place.querySelector<HTMLElement>(name)!)
  const clicks = { count: 0 }
  const layOut = (at: DOMRectInit) => (button!.getBoundingClientRect = () => DOMRect.fromRect({ ...PLACE, ...at }))
  layOut(PLACE)
  button!.addEventListener('click', () => (clicks.count += 1))
  const point = (type: string, at: Element, place: Partial<PointerEventInit> = {}) =>
    at.dispatchEvent(Object.assign(new Event(type, { bubbles: true }), { button: 0, clientX: 50, clientY: 50, ...place }))
  return { button: button!, label: label!, text: text!, clicks, layOut, point }
}

describe('a press of a button', () => {
  it('counts when the layout moves the button away before it ends', () => {
    const { label, text, clicks, layOut, point } = buttonWithText()
    point('pointerdown', label)
    layOut({ y: 240 })
    point('pointerup', text)
    expect(clicks.count).toBe(1)
    point('pointerdown', label, { clientY: 250 })
    layOut({ x: 240, y: 240 })
    point('pointerup', text, { clientX: 99, clientY: 259 })
    expect(clicks.count).toBe(2)
  })

  it('does not count when it ends beside a button that has not moved, however near', () => {
    const { button, text, clicks, point } = buttonWithText()
    point('pointerdown', button, { clientX: 98 })
    point('pointerup', text, { clientX: 101 })
    expect(clicks.count).toBe(0)
  })

  it('is left to the browser when it ends on the button', () => {
    const { button, label, clicks, point } = buttonWithText()
    point('pointerdown', label)
    point('pointerup', button)
    expect(clicks.count).toBe(0)
  })

  it('does not count when the pointer leaves the place of the button, or another mouse button is pressed', () => {
    const { button, text, clicks, layOut, point } = buttonWithText()
    point('pointerdown', button)
    layOut({ y: 240 })
    point('pointerup', text, { clientY: 60 })
    layOut(PLACE)
    point('pointerdown', button, { button: 2 })
    layOut({ y: 240 })
    point('pointerup', text)
    expect(clicks.count).toBe(0)
  })

  it('does not count when its button has gone', () => {
    const { button, text, clicks, layOut, point } = buttonWithText()
    point('pointerdown', button)
    layOut({ y: 0, x: 0, width: 0, height: 0 })
    button.remove()
    point('pointerup', text)
    expect(clicks.count).toBe(0)
  })
})
