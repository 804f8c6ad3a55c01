import type { OpenPages } from '../ui/open-pages.ts'
import type { Site } from '../ui/site.ts'
import { grid as text } from '../messages/grid.ts'
import { PictureStore } from './picture-store.ts'
import { savePictures, saveSprites, loadPictures, restoreSprites, tokenIn } from './tab-storage.ts'
import { DragVelocity } from './drag-velocity.ts'
import { nameOf, spriteNamed } from './name.ts'
import { FILES_WAITING_MAX } from './picture-bounds.ts'
import { pictureOf } from './picture.ts'
import type { GridSession } from './grid.ts'
import { joinGrid } from './grid.ts'
import { browserEnvironment } from './browser-environment.ts'
import type { Crossing } from './protocol.ts'
import { opposite } from './protocol.ts'
import type { Body } from './physics.ts'
import { RADIUS, STEP_S, THROW_SPEED, Physics } from './physics.ts'

/** Message keys by edge. */
const FROM = { left: 'fromLeft', right: 'fromRight', up: 'fromUp', down: 'fromDown' } as const
const OVER = { left: 'overLeft', right: 'overRight', up: 'overUp', down: 'overDown' } as const
const BACK = { left: 'backLeft', right: 'backRight', up: 'backUp', down: 'backDown' } as const

/** Longest movement that one frame catches up on, as after a pause of the tab, in seconds. */
const CATCH_UP_S = 0.1
/** Speed of a throw with an arrow key, in pixels per second. */
const KEY_SPEED = 1_400
/** Speed at which a new sprite moves away from the middle, in pixels per second; too slow to leave the window. */
const PUT_SPEED = 0.95 * THROW_SPEED
const PUSHES: Record<string, { x: number; y: number }> = {
  ArrowLeft: { x: -KEY_SPEED, y: 0 },
  ArrowRight: { x: KEY_SPEED, y: 0 },
  ArrowUp: { x: 0, y: -KEY_SPEED },
  ArrowDown: { x: 0, y: KEY_SPEED },
}

/** Receives the changes that the view shows. */
export interface GameListener {
  bodies(bodies: readonly Body[]): void
  news(sentence: string): void
  /** An action of the person failed; `null` clears the message. */
  problem(sentence: string | null): void
}

/** Connects the physics, the frames of the screen, and the grid. */
export class Game {
  readonly session: GridSession
  readonly pictures: PictureStore
  readonly #physics: Physics
  readonly #stage: HTMLElement
  readonly #listener: GameListener
  readonly #elements = new Map<number, HTMLElement>()
  readonly #dragVelocity = new DragVelocity()
  readonly #stop = new AbortController()
  readonly #sizes: ResizeObserver
  #shown = ''
  #frame: number | null = null
  #last = 0
  #behind = 0
  #filesWaiting = 0
  #filesDone = Promise.resolve()

  constructor(site: Site, openPages: OpenPages, grid: string, stage: HTMLElement, listener: GameListener) {
    this.#stage = stage
    this.#listener = listener
    this.pictures = new PictureStore(browserEnvironment(site, openPages))
    this.#physics = new Physics(stage.clientWidth, stage.clientHeight)
    restoreSprites(sessionStorage, grid, this.#physics)
    void this.pictures.restore(loadPictures(sessionStorage, grid))
    this.session = joinGrid(site.channels, grid, tokenIn(sessionStorage, grid), (arrival) => {
      this.#enter(arrival, text(FROM[arrival.edge], { name: nameOf(arrival) }))
    })
    this.#sizes = new ResizeObserver(() => {
      this.#physics.resize(stage.clientWidth, stage.clientHeight)
      this.#draw()
    })
    this.#sizes.observe(stage)
    const keep = () => {
      saveSprites(sessionStorage, grid, this.#physics)
      savePictures(sessionStorage, grid, this.pictures.saved())
    }
    addEventListener('pagehide', keep, { signal: this.#stop.signal })
    this.#stop.signal.addEventListener('abort', keep)
    this.#wake()
  }

  end(): void {
    this.#stop.abort()
    this.#sizes.disconnect()
    this.session.leave()
    this.pictures.close()
    if (this.#frame !== null) cancelAnimationFrame(this.#frame)
  }

  /** Sets the element that shows a sprite. */
  draws(body: Body, element: HTMLElement | null): void {
    if (element === null) this.#elements.delete(body.id)
    else this.#elements.set(body.id, element)
    this.#draw()
  }

  /** Puts a new sprite in the middle, or where it was dropped. */
  put(sprite: string, picture: string | null = null, at: { x: number; y: number } | null = null): void {
    const { width, height } = this.#physics
    const { x, y } = at ?? { x: width / 2, y: height / 2 }
    const body = this.#physics.put(sprite, x, y, picture)
    // A random direction, so that many sprites do not end in one heap.
    const angle = 2 * Math.PI * Math.random()
    const speed = PUT_SPEED * (0.3 + 0.7 * Math.random())
    this.#physics.push(body, { x: speed * Math.cos(angle), y: speed * Math.sin(angle) })
    this.#wake()
  }

  /** Makes a sprite of each of these files, one after the other; `drop` is the place on the screen. */
  putPictures(files: readonly File[], drop: { clientX: number; clientY: number } | null = null): void {
    this.#listener.problem(null)
    const { left, top } = this.#stage.getBoundingClientRect()
    const at = drop === null ? null : { x: drop.clientX - left, y: drop.clientY - top }
    const taken = files.slice(0, Math.max(0, FILES_WAITING_MAX - this.#filesWaiting))
    if (taken.length < files.length) this.#listener.problem(text('tooMany', { count: FILES_WAITING_MAX }))
    for (const file of taken) {
      this.#filesWaiting++
      this.#filesDone = this.#filesDone.then(async () => {
        await this.#putPicture(file, at)
        this.#filesWaiting--
      })
    }
  }

  async #putPicture(file: File, at: { x: number; y: number } | null): Promise<void> {
    try {
      const picture = await pictureOf(file)
      const bytes = new Uint8Array(await picture.arrayBuffer())
      const cid = await this.pictures.add({ bytes, isMine: true })
      if (this.#stop.signal.aborted) return
      const sprite = spriteNamed(file.name)
      this.put(sprite, cid, at)
      this.#listener.news(text('made', { name: sprite }))
    } catch (error) {
      this.#listener.problem(error instanceof Error ? error.message : String(error))
    }
  }

  handleKey(body: Body, key: string): boolean {
    const velocity = PUSHES[key]
    if (velocity !== undefined) this.#physics.push(body, velocity)
    else if (key === 'Delete' || key === 'Backspace') this.#physics.remove(body)
    else return false
    this.#wake()
    return true
  }

  grab(body: Body, event: PointerEvent): void {
    this.#physics.grab(body)
    this.#dragVelocity.begin(event.clientX, event.clientY, event.timeStamp)
    this.#wake()
  }

  drag(body: Body, event: PointerEvent): void {
    if (!body.isHeld) return
    this.#dragVelocity.move(event.clientX, event.clientY, event.timeStamp)
    const { left, top } = this.#stage.getBoundingClientRect()
    this.#physics.drag(body, event.clientX - left, event.clientY - top)
    this.#wake()
  }

  letGo(body: Body, event: PointerEvent): void {
    if (!body.isHeld) return
    this.#physics.release(body, this.#dragVelocity.velocity(event.timeStamp))
    this.#wake()
  }

  #enter(crossing: Crossing, news: string): void {
    this.#physics.enter(crossing)
    this.#listener.news(news)
    this.#wake()
  }

  /** Requests frames only while something moves. */
  #wake(): void {
    this.#draw()
    if (this.#frame !== null) return
    this.#last = performance.now()
    this.#frame = requestAnimationFrame(this.#onFrame)
  }

  readonly #onFrame = (now: number): void => {
    this.#behind = Math.min(this.#behind + Math.max(0, now - this.#last) / 1_000, CATCH_UP_S)
    this.#last = now
    for (; this.#behind >= STEP_S; this.#behind -= STEP_S) {
      for (const gone of this.#physics.step()) void this.#throw(gone)
    }
    this.#draw()
    this.#frame = this.#physics.isAwake ? requestAnimationFrame(this.#onFrame) : null
  }

  async #throw(crossing: Crossing): Promise<void> {
    const name = nameOf(crossing)
    if ((await this.session.throw(crossing)) === 'across') {
      this.#listener.news(text(OVER[crossing.edge], { name }))
      return
    }
    if (this.#stop.signal.aborted) return
    const edge = opposite(crossing.edge)
    this.#enter({ ...crossing, edge }, text(BACK[crossing.edge], { name }))
  }

  #draw(): void {
    const { bodies } = this.#physics
    const ids = bodies.map(({ id }) => id).join()
    if (ids !== this.#shown) {
      this.#shown = ids
      this.pictures.use(bodies.map(({ picture }) => picture).filter((picture) => picture !== null))
      this.#listener.bodies([...bodies])
    }
    for (const { id, x, y } of bodies) {
      const element = this.#elements.get(id)
      if (element !== undefined) element.style.transform = `translate3d(${x - RADIUS}px,${y - RADIUS}px,0)`
    }
  }
}
