import '../style/sprites.css'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Site } from '../ui/site.ts'
import { wearFace } from '../ui/tab.ts'
import { keepSprites, putSprites, tokenIn } from './desk.ts'
import { DRAWINGS, drawingOf } from './drawings.tsx'
import { Flick } from './flick.ts'
import type { PlaneSession } from './plane.ts'
import { enterPlane } from './plane.ts'
import type { Crossing, Edge, Neighbours } from './throw.ts'
import { EDGES, NOBODY, opposite } from './throw.ts'
import type { Body } from './world.ts'
import { RADIUS, STEP_S, THROW_SPEED, World } from './world.ts'

/** Seconds of movement that one frame catches up with at most, as after a pause of the tab. */
const CATCH_UP_S = 0.1
/** How fast an arrow key throws, in pixels a second. */
const KEY_SPEED = 1_400
/** How fast a new sprite moves away from the middle, in pixels a second; too slow to leave. */
const PUT_SPEED = 0.95 * THROW_SPEED
const SIDES: Record<Edge, string> = { left: 'left', right: 'right', up: 'top', down: 'bottom' }
const PUSHES: Record<string, { x: number; y: number }> = {
  ArrowLeft: { x: -KEY_SPEED, y: 0 },
  ArrowRight: { x: KEY_SPEED, y: 0 },
  ArrowUp: { x: 0, y: -KEY_SPEED },
  ArrowDown: { x: 0, y: KEY_SPEED },
}

/** A plane: this window is a desktop, and beyond each of its edges is somebody else's. */
export function SpritesPage({ site, plane }: { site: Site; plane: string }) {
  const stage = useRef<HTMLDivElement>(null)
  const game = useRef<Game | null>(null)
  const [bodies, setBodies] = useState<readonly Body[]>([])
  const [news, setNews] = useState('')
  const [session, setSession] = useState<PlaneSession | null>(null)
  useEffect(() => wearFace(`${plane} · Watchfire`, 'lit'), [plane])
  useLayoutEffect(() => {
    if (stage.current === null) return
    const playing = new Game(site, plane, stage.current, setBodies, setNews)
    game.current = playing
    setSession(playing.session)
    return () => playing.end()
  }, [site, plane])
  const standing = session?.standing.value ?? 'joining'
  return (
    <div class="plane">
      <h1 class="unseen">Sprites on {plane}</h1>
      <div ref={stage} class="stage">
        {bodies.map((body) => (
          <SpriteButton key={body.id} body={body} game={game.current} />
        ))}
      </div>
      <div class="shelf" role="toolbar" aria-label="Put a sprite here">
        {[...DRAWINGS].map(([sprite, { name, picture }]) => (
          <button type="button" key={sprite} class="quiet" aria-label={`Put a ${name.toLowerCase()} here`} onClick={() => game.current?.put(sprite)}>
            <svg viewBox="0 0 64 64" width="28" height="28" aria-hidden="true">{picture}</svg>
          </button>
        ))}
      </div>
      <NeighbourMap neighbours={session?.neighbours.value ?? NOBODY} />
      <p class="news" role="status">
        {standing === 'joining' && 'Joining…'}
        {typeof standing === 'object' && `Refused: ${standing.refused}`}
        {standing === 'joined' && (news || 'Throw a sprite over an edge, or focus it and press an arrow key.')}
      </p>
    </div>
  )
}

function SpriteButton({ body, game }: { body: Body; game: Game | null }) {
  const { name, picture } = drawingOf(body.sprite)
  return (
    <button
      type="button"
      class="sprite"
      aria-label={`${name}: arrow keys throw it, Delete removes it`}
      ref={(element) => game?.draws(body, element)}
      onKeyDown={(event) => {
        if (game?.hearKey(body, event.key)) event.preventDefault()
      }}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId)
        game?.grab(body, event)
      }}
      onPointerMove={(event) => game?.drag(body, event)}
      onPointerUp={(event) => game?.letGo(body, event)}
      onPointerCancel={(event) => game?.letGo(body, event)}
    >
      <svg viewBox="0 0 64 64" width={2 * RADIUS} height={2 * RADIUS} aria-hidden="true">{picture}</svg>
    </button>
  )
}

function NeighbourMap({ neighbours }: { neighbours: Neighbours }) {
  return (
    <dl class="map" aria-label="Who is next to you">
      {EDGES.map((edge) => {
        const peer = neighbours[edge]
        return (
          <div key={edge} class={`${edge} ${peer === null ? 'nobody' : ''}`} style={peer === null ? {} : { '--hue': hueOf(peer) }}>
            <dt class="unseen">{SIDES[edge]}</dt>
            <dd title={peer === null ? 'nobody' : peer}>{peer === null ? '–' : peer.slice(0, 4)}</dd>
          </div>
        )
      })}
      <div class="you" aria-hidden="true">you</div>
    </dl>
  )
}

/** The same neighbour has the same colour on every edge. */
function hueOf(peer: string): string {
  return `${Number.parseInt(peer.slice(0, 4), 16) % 360 || 0}`
}

/** The moving part: a world, its frames, and the plane that sprites come from and go to. */
class Game {
  readonly session: PlaneSession
  readonly #world: World
  readonly #stage: HTMLElement
  readonly #show: (bodies: readonly Body[]) => void
  readonly #tell: (news: string) => void
  readonly #elements = new Map<number, HTMLElement>()
  readonly #flick = new Flick()
  readonly #stop = new AbortController()
  readonly #sizes: ResizeObserver
  #shown = ''
  #frame: number | null = null
  #last = 0
  #behind = 0

  constructor(
    site: Site,
    plane: string,
    stage: HTMLElement,
    show: (bodies: readonly Body[]) => void,
    tell: (news: string) => void,
  ) {
    this.#stage = stage
    this.#show = show
    this.#tell = tell
    this.#world = new World(stage.clientWidth, stage.clientHeight)
    putSprites(sessionStorage, plane, this.#world)
    this.session = enterPlane(site.channels, plane, tokenIn(sessionStorage, plane), (arrival) => {
      this.#comeIn(arrival, `${drawingOf(arrival.sprite).name} came in from the ${SIDES[arrival.edge]}.`)
    })
    this.#sizes = new ResizeObserver(() => {
      this.#world.resize(stage.clientWidth, stage.clientHeight)
      this.#draw()
    })
    this.#sizes.observe(stage)
    const keep = () => keepSprites(sessionStorage, plane, this.#world)
    addEventListener('pagehide', keep, { signal: this.#stop.signal })
    this.#stop.signal.addEventListener('abort', keep)
    this.#wake()
  }

  end(): void {
    this.#stop.abort()
    this.#sizes.disconnect()
    this.session.leave()
    if (this.#frame !== null) cancelAnimationFrame(this.#frame)
  }

  /** This element is that sprite's. */
  draws(body: Body, element: HTMLElement | null): void {
    if (element === null) this.#elements.delete(body.id)
    else this.#elements.set(body.id, element)
    this.#draw()
  }

  put(sprite: string): void {
    const { width, height } = this.#world
    const body = this.#world.put(sprite, width / 2, height / 2)
    // Somewhere, so that many do not end in one heap.
    const angle = 2 * Math.PI * Math.random()
    const speed = PUT_SPEED * (0.3 + 0.7 * Math.random())
    this.#world.push(body, { x: speed * Math.cos(angle), y: speed * Math.sin(angle) })
    this.#wake()
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
    this.#tell(news)
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
    const { name } = drawingOf(crossing.sprite)
    const side = SIDES[crossing.edge]
    if (await this.session.throw(crossing) === 'across') {
      this.#tell(`${name} went over to your neighbour at the ${side}.`)
      return
    }
    if (this.#stop.signal.aborted) return
    const edge = opposite(crossing.edge)
    this.#comeIn({ ...crossing, edge }, `Nobody is at the ${side}: ${name} came back from the ${SIDES[edge]}.`)
  }

  #draw(): void {
    const { bodies } = this.#world
    const ids = bodies.map(({ id }) => id).join()
    if (ids !== this.#shown) {
      this.#shown = ids
      this.#show([...bodies])
    }
    for (const { id, x, y } of bodies) {
      const element = this.#elements.get(id)
      if (element !== undefined) element.style.transform = `translate3d(${x - RADIUS}px,${y - RADIUS}px,0)`
    }
  }
}
