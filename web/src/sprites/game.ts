import type { Hearth } from '../ui/hearth.ts'
import type { Site } from '../ui/site.ts'
import { plane as words } from '../words/plane.ts'
import { Album } from './album.ts'
import { keepPictures, keepSprites, keptPictures, putSprites, tokenIn } from './desk.ts'
import { Flick } from './flick.ts'
import { nameOf, spriteNamed } from './name.ts'
import { FILES_WAITING_MAX } from './picture-bounds.ts'
import { pictureOf } from './picture.ts'
import type { PlaneSession } from './plane.ts'
import { enterPlane } from './plane.ts'
import { surroundingsOf } from './surroundings.ts'
import type { Crossing } from './throw.ts'
import { opposite } from './throw.ts'
import type { Body } from './world.ts'
import { RADIUS, STEP_S, THROW_SPEED, World } from './world.ts'

/** What is said of each edge. */
const FROM = { left: 'fromLeft', right: 'fromRight', up: 'fromUp', down: 'fromDown' } as const
const OVER = { left: 'overLeft', right: 'overRight', up: 'overUp', down: 'overDown' } as const
const BACK = { left: 'backLeft', right: 'backRight', up: 'backUp', down: 'backDown' } as const

/** Seconds of movement that one frame catches up with at most, as after a pause of the tab. */
const CATCH_UP_S = 0.1
/** How fast an arrow key throws, in pixels a second. */
const KEY_SPEED = 1_400
/** How fast a new sprite moves away from the middle, in pixels a second; too slow to leave. */
const PUT_SPEED = 0.95 * THROW_SPEED
const PUSHES: Record<string, { x: number; y: number }> = {
  ArrowLeft: { x: -KEY_SPEED, y: 0 },
  ArrowRight: { x: KEY_SPEED, y: 0 },
  ArrowUp: { x: 0, y: -KEY_SPEED },
  ArrowDown: { x: 0, y: KEY_SPEED },
}

/** What a game tells the person. */
export interface Teller {
  bodies(bodies: readonly Body[]): void
  news(sentence: string): void
  /** Something they wanted did not happen; `null` when that is over. */
  trouble(sentence: string | null): void
}

/** The moving part: a world, its frames, and the plane that sprites come from and go to. */
export class Game {
  readonly session: PlaneSession
  readonly album: Album
  readonly #world: World
  readonly #stage: HTMLElement
  readonly #tell: Teller
  readonly #elements = new Map<number, HTMLElement>()
  readonly #flick = new Flick()
  readonly #stop = new AbortController()
  readonly #sizes: ResizeObserver
  #shown = ''
  #frame: number | null = null
  #last = 0
  #behind = 0
  #filesWaiting = 0
  #filesDone = Promise.resolve()

  constructor(site: Site, hearth: Hearth, plane: string, stage: HTMLElement, tell: Teller) {
    this.#stage = stage
    this.#tell = tell
    this.album = new Album(surroundingsOf(site, hearth))
    this.#world = new World(stage.clientWidth, stage.clientHeight)
    putSprites(sessionStorage, plane, this.#world)
    void this.album.restore(keptPictures(sessionStorage, plane))
    this.session = enterPlane(site.channels, plane, tokenIn(sessionStorage, plane), (arrival) => {
      this.#comeIn(arrival, words(FROM[arrival.edge], { name: nameOf(arrival) }))
    })
    this.#sizes = new ResizeObserver(() => {
      this.#world.resize(stage.clientWidth, stage.clientHeight)
      this.#draw()
    })
    this.#sizes.observe(stage)
    const keep = () => {
      keepSprites(sessionStorage, plane, this.#world)
      keepPictures(sessionStorage, plane, this.album.kept())
    }
    addEventListener('pagehide', keep, { signal: this.#stop.signal })
    this.#stop.signal.addEventListener('abort', keep)
    this.#wake()
  }

  end(): void {
    this.#stop.abort()
    this.#sizes.disconnect()
    this.session.leave()
    this.album.close()
    if (this.#frame !== null) cancelAnimationFrame(this.#frame)
  }

  /** This element is that sprite's. */
  draws(body: Body, element: HTMLElement | null): void {
    if (element === null) this.#elements.delete(body.id)
    else this.#elements.set(body.id, element)
    this.#draw()
  }

  /** Puts a new sprite in the middle, or where it was let go. */
  put(sprite: string, picture: string | null = null, at: { x: number; y: number } | null = null): void {
    const { width, height } = this.#world
    const { x, y } = at ?? { x: width / 2, y: height / 2 }
    const body = this.#world.put(sprite, x, y, picture)
    // Somewhere, so that many do not end in one heap.
    const angle = 2 * Math.PI * Math.random()
    const speed = PUT_SPEED * (0.3 + 0.7 * Math.random())
    this.#world.push(body, { x: speed * Math.cos(angle), y: speed * Math.sin(angle) })
    this.#wake()
  }

  /** Makes a sprite of each of these files, one after the other; `drop` is where on the screen they were let go. */
  putPictures(files: readonly File[], drop: { clientX: number; clientY: number } | null = null): void {
    this.#tell.trouble(null)
    const { left, top } = this.#stage.getBoundingClientRect()
    const at = drop === null ? null : { x: drop.clientX - left, y: drop.clientY - top }
    const taken = files.slice(0, Math.max(0, FILES_WAITING_MAX - this.#filesWaiting))
    if (taken.length < files.length) this.#tell.trouble(words('tooMany', { count: FILES_WAITING_MAX }))
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
      const cid = await this.album.hold({ bytes, isMine: true })
      if (this.#stop.signal.aborted) return
      const sprite = spriteNamed(file.name)
      this.put(sprite, cid, at)
      this.#tell.news(words('made', { name: sprite }))
    } catch (error) {
      this.#tell.trouble(error instanceof Error ? error.message : String(error))
    }
  }

  hearKey(body: Body, key: string): boolean {
    const velocity = PUSHES[key]
    if (velocity !== undefined) this.#world.push(body, velocity)
    else if (key === 'Delete' || key === 'Backspace') this.#world.remove(body)
    else return false
    this.#wake()
    return true
  }

  grab(body: Body, event: PointerEvent): void {
    this.#world.grab(body)
    this.#flick.begin(event.clientX, event.clientY, event.timeStamp)
    this.#wake()
  }

  drag(body: Body, event: PointerEvent): void {
    if (!body.isHeld) return
    this.#flick.move(event.clientX, event.clientY, event.timeStamp)
    const { left, top } = this.#stage.getBoundingClientRect()
    this.#world.drag(body, event.clientX - left, event.clientY - top)
    this.#wake()
  }

  letGo(body: Body, event: PointerEvent): void {
    if (!body.isHeld) return
    this.#world.release(body, this.#flick.velocity(event.timeStamp))
    this.#wake()
  }

  #comeIn(crossing: Crossing, news: string): void {
    this.#world.enter(crossing)
    this.#tell.news(news)
    this.#wake()
  }

  /** Frames run only while something moves. */
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
      for (const gone of this.#world.step()) void this.#throw(gone)
    }
    this.#draw()
    this.#frame = this.#world.isAwake ? requestAnimationFrame(this.#onFrame) : null
  }

  async #throw(crossing: Crossing): Promise<void> {
    const name = nameOf(crossing)
    if (await this.session.throw(crossing) === 'across') {
      this.#tell.news(words(OVER[crossing.edge], { name }))
      return
    }
    if (this.#stop.signal.aborted) return
    const edge = opposite(crossing.edge)
    this.#comeIn({ ...crossing, edge }, words(BACK[crossing.edge], { name }))
  }

  #draw(): void {
    const { bodies } = this.#world
    const ids = bodies.map(({ id }) => id).join()
    if (ids !== this.#shown) {
      this.#shown = ids
      this.album.use(bodies.map(({ picture }) => picture).filter((picture) => picture !== null))
      this.#tell.bodies([...bodies])
    }
    for (const { id, x, y } of bodies) {
      const element = this.#elements.get(id)
      if (element !== undefined) element.style.transform = `translate3d(${x - RADIUS}px,${y - RADIUS}px,0)`
    }
  }
}
