import { useLayoutEffect, useRef } from 'preact/hooks'

interface BuiltProps {
  of: DocumentFragment
  as: 'code' | 'div'
  class?: string
  onClick?: (event: MouseEvent) => void
}

/** Nodes that were built elsewhere, put into the page as they are. */
export function Built({ of, as: Tag, ...rest }: BuiltProps) {
  const holder = useRef<HTMLElement>(null)
  useLayoutEffect(() => {
    holder.current?.replaceChildren(of.cloneNode(true))
  }, [of])
  return Tag === 'code' ? <code ref={holder} {...rest} /> : <div ref={holder as never} {...rest} />
}
