import type { Availability } from './tab-status.ts'

const OUTER =
  'M17.2 2.4c.5 4.7 3.4 6.6 5.9 9.8 2 2.6 3.1 5.1 3.1 8 0 5.6-4.4 9.6-10.2 9.6S5.8 25.8 5.8 20.3c0-3.3 1.5-5.8 3.3-8.2.7 1.6 1.5 2.6 2.7 3.3C11.4 9.9 13.2 5.3 17.2 2.4z'
const INNER = 'M16.3 16.2c.3 2.3 1.7 3.2 2.7 4.6.7 1 1.1 2 1.1 3.1 0 2.4-1.8 4.1-4.1 4.1s-4.1-1.7-4.1-4.1c0-2.8 3.3-4.2 4.4-7.7z'

/** The flame of the logo, drawn by availability, or as the last one. Text beside it states the same. `isStill`: it does not move while loading. */
export function Flame({ availability, size, isStill = false }: { availability: Availability | 'alone'; size: number; isStill?: boolean }) {
  return (
    <svg
      class={isStill ? `flame ${availability} still` : `flame ${availability}`}
      width={size}
      height={size}
      viewBox="0 0 32 32"
      aria-hidden="true"
    >
      <path class="outer" d={OUTER} />
      <path class="inner" d={INNER} />
    </svg>
  )
}
