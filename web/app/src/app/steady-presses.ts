interface Press {
  readonly button: HTMLElement
  /** Where the button was when the press began. */
  readonly place: DOMRect
}

/**
 * Makes a press count when the layout moves the button away before the press ends. A browser clicks only what is under the
 * pointer at the beginning and at the end, so without this nothing would happen. A pointer that leaves a button which stays where it
 * is, or the place where the button was, does so on purpose, as a person does who changes their mind. Fingers need no help: the end of
 * a touch goes to the element where it began.
 */
export function keepPressesSteady(target: EventTarget): void {
  let press: Press | null = null
  target.addEventListener('pointerdown', (event) => {
    const { target: pressed, button: which } = event as PointerEvent
    const button = which === 0 && pressed instanceof Element ? pressed.closest<HTMLElement>('button') : null
    press = button === null ? null : { button, place: button.getBoundingClientRect() }
  })
  target.addEventListener('pointerup', (event) => {
    const { target: released, clientX, clientY } = event as PointerEvent
    const ended = press
    press = null
    if (ended === null || !ended.button.isConnected || !(released instanceof Node) || ended.button.contains(released)) return
    const { button, place } = ended
    if (hasMoved(place, button.getBoundingClientRect()) && isWithin(place, clientX, clientY)) button.click()
  })
}

function hasMoved(before: DOMRect, after: DOMRect): boolean {
  return (['left', 'right', 'top', 'bottom'] as const).some((edge) => before[edge] !== after[edge])
}

function isWithin({ left, right, top, bottom }: DOMRect, x: number, y: number): boolean {
  return x >= left && x < right && y >= top && y < bottom
}
