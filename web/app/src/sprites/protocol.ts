import { ContentError, parseCid } from '@watchfire/pages/content'

/** The edges of a window, as the sprites protocol names them. */
export type Edge = 'left' | 'right' | 'up' | 'down'

export const EDGES: readonly Edge[] = ['left', 'right', 'up', 'down']

export interface Velocity {
  x: number
  y: number
}

/** A sprite that leaves over an edge, or arrives at one. */
export interface Crossing {
  sprite: string
  /** The CID of its picture; `null` for a built-in drawing. */
  picture: string | null
  edge: Edge
  /** Position along the edge, from its top or left end: 0 to 1. */
  at: number
  /** Pixels per second. */
  velocity: Velocity
}

/** The peer beyond each edge; `null` where there is none. */
export type Neighbours = Readonly<Record<Edge, string | null>>

export const NO_NEIGHBOURS: Neighbours = { left: null, right: null, up: null, down: null }

const OPPOSITES: Record<Edge, Edge> = { left: 'right', right: 'left', up: 'down', down: 'up' }

export function opposite(edge: Edge): Edge {
  return OPPOSITES[edge]
}

/** Parses an `arrive` event. Any client may have sent it; `null` when it is not valid. */
export function readArrival(payload: unknown): Crossing | null {
  const { sprite, edge, at, velocity, picture } = fields(payload)
  const { x, y } = fields(velocity)
  if (typeof sprite !== 'string' || !isEdge(edge)) return null
  if (!isNumber(at) || at < 0 || at > 1 || !isNumber(x) || !isNumber(y)) return null
  return { sprite, picture: readPicture(picture), edge, at, velocity: { x, y } }
}

/** Parses the CID of a picture into its canonical form; `null` when it is not valid. */
export function readPicture(name: unknown): string | null {
  if (typeof name !== 'string') return null
  try {
    return parseCid(name).key
  } catch (error) {
    if (error instanceof ContentError) return null
    throw error
  }
}

/** Parses neighbours; an invalid one counts as absent. */
export function readNeighbours(payload: unknown): Neighbours {
  const told = fields(payload)
  const peer = (edge: Edge) => {
    const id = told[edge]
    return typeof id === 'string' ? id : null
  }
  return { left: peer('left'), right: peer('right'), up: peer('up'), down: peer('down') }
}

/** Parses the reply to a join. */
export function readSlot(response: unknown): { token: string | null; neighbours: Neighbours } {
  const { token, neighbours } = fields(response)
  return { token: typeof token === 'string' ? token : null, neighbours: readNeighbours(neighbours) }
}

/** Whether a throw found no neighbour, so that the sprite comes back. */
export function isWrapped(response: unknown): boolean {
  return fields(response)['wrapped'] === true
}

function fields(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}

function isEdge(value: unknown): value is Edge {
  return EDGES.some((edge) => edge === value)
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value)
}
