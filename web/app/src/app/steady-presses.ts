/** A pointer that moved further than this has left the button on purpose, as a person does who changes their mind. */
const LEFT_PX = 12

interface Press {
  readonly button: HTMLElement
  readonly x: number
  readonly y: number
}

/**
 * Makes a press count when the layout moves the button away before the press ends. A browser clicks only what is under the
 * pointer at the beginning and at the end, so without this nothing would happen. Fingers need no help: the end of a touch goes to
 * the element where it began.
 */
export function keepPressesSteady(target: EventTarget): void {
  let press: Press | null = null
  target.addEventListener('pointerdown', (event) => {
    const { target: pressed, button: which, clientX: x, clientY: y } = event as PointerEvent
    const button = which === 0 && pressed instanceof Element ? pressed.closest<HTMLElement>('button') : null
    press = button === null ? null : { button, x, y }
  })
  target.addEventListener('pointerup', (event) => {
    const { target: released, clientX, clientY } = event as PointerEvent
    const ended = press
    press = null
    if (ended === null || !ended.button.isConnected || !(released instanceof Node) || ended.button.contains(released)) return
    if (Math.hypot(clientX - ended.x, clientY - ended.y) < LEFT_PX) ended.button.click()
  })
}
