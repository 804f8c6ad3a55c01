import type { JSX } from 'preact'

/** A sprite that every window can draw. */
export interface Drawing {
  /** Its name in the catalogue. */
  name: 'cat' | 'kite' | 'ball' | 'ghost' | 'fish' | 'star' | 'snail' | 'ember' | 'stranger'
  picture: JSX.Element
}

const eyes = (
  <g fill="#221d1a">
    <circle cx="25" cy="30" r="3" />
    <circle cx="39" cy="30" r="3" />
  </g>
)

/** Drawings by the id under which they are thrown. */
export const DRAWINGS: ReadonlyMap<string, Drawing> = new Map<string, Drawing>([
  [
    'cat',
    {
      name: 'cat',
      picture: (
        <g>
          <path d="M14 30 12 8l14 8h12l14-8-2 22c2 16-6 26-18 26S12 46 14 30z" fill="#e8934a" />
          {eyes}
          <path d="m29 37 3 3 3-3m-3 3v4M8 36l10 2M8 44l10-2m38-6-10 2m10 6-10-2" stroke="#221d1a" stroke-width="2" fill="none" />
        </g>
      ),
    },
  ],
  [
    'kite',
    {
      name: 'kite',
      picture: (
        <g>
          <path d="M32 4 52 28 32 50 12 28z" fill="#3f8fd2" />
          <path d="M32 4v46M12 28h40" stroke="#fff" stroke-width="2" />
          <path d="M32 50c-8 4 6 6-2 12" stroke="#d2483f" stroke-width="3" fill="none" />
        </g>
      ),
    },
  ],
  [
    'ball',
    {
      name: 'ball',
      picture: (
        <g>
          <circle cx="32" cy="32" r="26" fill="#d2483f" />
          <path d="M8 24c14 8 34 8 48 0M8 40c14-8 34-8 48 0" stroke="#fff" stroke-width="4" fill="none" />
        </g>
      ),
    },
  ],
  [
    'ghost',
    {
      name: 'ghost',
      picture: (
        <g>
          <path d="M12 58V30a20 20 0 0 1 40 0v28l-7-6-6 6-7-6-7 6-6-6z" fill="#cfc4e8" />
          {eyes}
          <ellipse cx="32" cy="40" rx="4" ry="5" fill="#221d1a" />
        </g>
      ),
    },
  ],
  [
    'fish',
    {
      name: 'fish',
      picture: (
        <g>
          <path d="M6 18c6 8 6 20 0 28l16-8c8 10 28 10 36-6-8-16-28-16-36-6z" fill="#2fa58a" />
          <circle cx="46" cy="29" r="3" fill="#221d1a" />
        </g>
      ),
    },
  ],
  [
    'star',
    {
      name: 'star',
      picture: (
        <g>
          <path d="m32 4 8 18 20 2-15 13 5 20-18-11-18 11 5-20L4 24l20-2z" fill="#f0b429" />
          {eyes}
        </g>
      ),
    },
  ],
  [
    'snail',
    {
      name: 'snail',
      picture: (
        <g>
          <path d="M6 54c0-8 6-8 12-8h30V30l-4-10m8 10 6-10" stroke="#8a9a3a" stroke-width="6" fill="none" stroke-linecap="round" />
          <circle cx="26" cy="34" r="18" fill="#a8673f" />
          <path d="M26 34a5 5 0 1 1 5 5 11 11 0 1 1 5-13" stroke="#f1e2d4" stroke-width="3" fill="none" />
        </g>
      ),
    },
  ],
  [
    'ember',
    {
      name: 'ember',
      picture: (
        <g>
          <path d="M32 4c4 14 20 18 20 36a20 20 0 0 1-40 0c0-8 4-12 8-16 0 6 2 8 5 9 0-12 2-22 7-29z" fill="#e8590c" />
          <path d="M32 30c2 6 9 8 9 16a9 9 0 0 1-18 0c0-6 7-9 9-16z" fill="#ffc069" />
        </g>
      ),
    },
  ],
])

/** Shown in place of an unknown sprite or picture. */
export const questionMark = (
  <g>
    <circle cx="32" cy="32" r="26" fill="#8d8793" />
    <path d="M24 26a8 8 0 1 1 8 8v5m0 6v3" stroke="#fff" stroke-width="5" fill="none" stroke-linecap="round" />
  </g>
)

/** A sprite by its id; an id that this client does not know is a question mark. */
export function drawingOf(sprite: string): Drawing {
  return DRAWINGS.get(sprite) ?? { name: 'stranger', picture: questionMark }
}
