// @vitest-environment happy-dom
import { describe, expect, it } from 'vitest'
import { keepPressesSteady } from './steady-presses.ts'

/** A button and a text beside it, and the clicks that the button has had. */
function buttonWithText() {
  const place = document.createElement('div')
  place.innerHTML = '<button type="button"><b>Share</b></button><p>text</p>'
  document.body.append(place)
  keepPressesSteady(place)
  const [button, label, text] = ['button', 'b', 'p'].map((name) => place.querySelector<HTMLElement>(name)!)
  const clicks = { count: 0 }
  button!.addEventListener('click', () => (clicks.count += 1))
  const point = (type: string, at: Element, place: Partial<PointerEventInit> = {}) =>
    at.dispatchEvent(Object.assign(new Event(type, { bubbles: true }), { button: 0, clientX: 50, clientY: 50, ...place }))
  return { button: button!, label: label!, text: text!, clicks, point }
}

describe('a press of a button', () => {
  it('counts when the layout moves the button away before it ends', () => {
    const { label, text, clicks, point } = buttonWithText()
    point('pointerdown', label)
    point('pointerup', text)
    expect(clicks.count).toBe(1)
  })

  it('is left to the browser when it ends on the button', () => {
    const { button, label, clicks, point } = buttonWithText()
    point('pointerdown', label)
    point('pointerup', button)
    expect(clicks.count).toBe(0)
  })

  it('does not count when the pointer leaves the button, or another mouse button is pressed', () => {
    const { button, text, clicks, point } = buttonWithText()
    point('pointerdown', button)
    point('pointerup', text, { clientY: 80 })
    point('pointerdown', button, { button: 2 })
    point('pointerup', text)
    expect(clicks.count).toBe(0)
  })

  it('does not count when its button has gone', () => {
    const { button, text, clicks, point } = buttonWithText()
    point('pointerdown', button)
    button.remove()
    point('pointerup', text)
    expect(clicks.count).toBe(0)
  })
})
