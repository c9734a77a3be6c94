# Makes small ONNX models of the domain com.microsoft, of quantised products, of
# opsets 18 to 22 and of corners that the tests of ONNX 1.12 do not have, with inputs and expected outputs computed here in plain Python, independently of
# divvy: python3 make.py FOLDER/node. The test onnx/contrib runs them.
import math, os, random, struct, sys

out = sys.argv[1]
F32, U8, I8, U16, I16, I32, I64, BOOL = 1, 2, 3, 4, 5, 6, 7, 9
CODE = {F32: 'f', U8: 'B', I8: 'b', U16: 'H', I16: 'h', I32: 'i', I64: 'q', BOOL: 'B'}

def varint(v):
    b = b''
    v &= (1 << 64) - 1
    while True:
        if v < 128:
            return b + bytes([v])
        b += bytes([v & 127 | 128]); v >>= 7

def num(field, v): return varint(field << 3) + varint(v)
def raw(field, b): return varint(field << 3 | 2) + varint(len(b)) + b
def text(field, s): return raw(field, s.encode())
def flt(field, v): return varint(field << 3 | 5) + struct.pack('<f', v)

def tensor(name, t, dims, data):
    return (b''.join(num(1, d) for d in dims) + num(2, t) + text(8, name) +
            raw(9, struct.pack('<%d%s' % (len(data), CODE[t]), *data)))

def value(name, t, dims):
    shape = b''.join(raw(1, num(1, d)) for d in dims)
    return text(1, name) + raw(2, raw(1, num(1, t) + raw(2, shape)))

def attribute(name, v):
    b = text(1, name)
    if isinstance(v, float): return b + flt(2, v) + num(20, 1)
    if isinstance(v, int): return b + num(3, v) + num(20, 2)
    if isinstance(v, str): return b + text(4, v) + num(20, 3)
    return b + b''.join(num(8, x) for x in v) + num(20, 7)

def model(name, op, domain, inputs, outputs, version=17, **attrs):
    node = b''.join(text(1, i[0] if i else '') for i in inputs)
    node += b''.join(text(2, o[0]) for o in outputs) + text(4, op)
    node += b''.join(raw(5, attribute(k, v)) for k, v in attrs.items())
    node += text(7, domain)
    given = [i for i in inputs if i]
    graph = raw(1, node) + text(2, name)
    graph += b''.join(raw(11, value(*i[:3])) for i in given)
    graph += b''.join(raw(12, value(*o[:3])) for o in outputs)
    opsets = raw(8, text(1, '') + num(2, version)) + raw(8, text(1, 'com.microsoft') + num(2, 1))
    return num(1, 8) + raw(7, graph) + opsets

def case(name, op, domain, inputs, outputs, version=17, **attrs):
    given = [i for i in inputs if i]
    path = os.path.join(out, 'test_' + name, 'test_data_set_0')
    os.makedirs(path, exist_ok=True)
    open(os.path.join(out, 'test_' + name, 'model.onnx'), 'wb').write(model(name, op, domain, inputs, outputs, version, **attrs))
    for kind, list in (('input', given), ('output', outputs)):
        for n, x in enumerate(list):
            open('%s/%s_%d.pb' % (path, kind, n), 'wb').write(tensor(*x))

R = random.Random(7)
def floats(n, s=1.0): return [struct.unpack('f', struct.pack('f', R.uniform(-s, s)))[0] for _ in range(n)]
def ints(n, lo, hi): return [R.randint(lo, hi) for _ in range(n)]

def matmul(a, b, m, k, n):
    return [sum(a[i*k+l] * b[l*n+j] for l in range(k)) for i in range(m) for j in range(n)]

def quantised(name, ta, tb, m, k, n, az, bz):
    lim = {U8: (0, 255), I8: (-128, 127)}
    a, b = ints(m*k, *lim[ta]), ints(k*n, *lim[tb])
    if ta == U8: a[:k] = [255] * k
    if tb == I8: b[::n] = [-128] * k
    za = az if isinstance(az, list) else [az or 0] * m
    zb = bz if isinstance(bz, list) else [bz or 0] * n
    c = matmul([x - za[i // k] for i, x in enumerate(a)], [x - zb[i % n] for i, x in enumerate(b)], m, k, n)
    def zero(nm, t, z):
        return None if z is None else (nm, t, [len(z)], z) if isinstance(z, list) else (nm, t, [], [z])
    case(name, 'MatMulInteger', '', [('a', ta, [m, k], a), ('b', tb, [k, n], b), zero('az', ta, az), zero('bz', tb, bz)], [('y', I32, [m, n], c)])

quantised('matmul_integer_u8_i8', U8, I8, 9, 37, 19, 131, None)
quantised('matmul_integer_u8_u8', U8, U8, 16, 64, 17, 7, 200)
quantised('matmul_integer_u8_u8_no_zeros', U8, U8, 12, 33, 8, None, None)
quantised('matmul_integer_i8_i8', I8, I8, 10, 48, 21, -5, ints(21, -128, 127))
quantised('matmul_integer_i8_u8', I8, U8, 8, 16, 9, ints(8, -128, 127), 128)

def gelu(x): return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))
def fast(x): return 0.5 * x * (1 + math.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))
x, b = floats(3*8, 1.5), floats(8, 1)
s = [v + b[i % 8] for i, v in enumerate(x)]
MS = 'com.microsoft'
case('bias_gelu', 'BiasGelu', MS, [('x', F32, [3, 8], x), ('b', F32, [8], b)], [('y', F32, [3, 8], [gelu(v) for v in s])])
case('fast_gelu', 'FastGelu', MS, [('x', F32, [3, 8], x)], [('y', F32, [3, 8], [fast(v) for v in x])])
case('fast_gelu_bias', 'FastGelu', MS, [('x', F32, [3, 8], x), ('b', F32, [8], b)], [('y', F32, [3, 8], [fast(v) for v in s])])
case('gelu', 'Gelu', MS, [('x', F32, [3, 8], x)], [('y', F32, [3, 8], [gelu(v) for v in x])])
case('quick_gelu', 'QuickGelu', MS, [('x', F32, [3, 8], x)], [('y', F32, [3, 8], [v / (1 + math.exp(-1.5 * v)) for v in x])], alpha=1.5)

def turn(a, r, c): return [a[i*c+j] for j in range(c) for i in range(r)]
a, b = floats(5*7), floats(7*6)
c = [1.5 * v for v in matmul(a, b, 5, 7, 6)]
case('fused_matmul', 'FusedMatMul', MS, [('a', F32, [7, 5], turn(a, 5, 7)), ('b', F32, [6, 7], turn(b, 7, 6))], [('y', F32, [5, 6], c)], transA=1, transB=1, alpha=1.5)
case('fused_matmul_plain', 'FusedMatMul', MS, [('a', F32, [5, 7], a), ('b', F32, [7, 6], b)], [('y', F32, [5, 6], matmul(a, b, 5, 7, 6))])

def norm(v, g, h, eps, rms):
    mean = 0 if rms else sum(v) / len(v)
    d = math.sqrt(sum((t - mean) ** 2 for t in v) / len(v) + eps)
    return [(t - mean) / d * g[i] + (h[i] if h else 0) for i, t in enumerate(v)]
x, skip, g, h, bias = floats(24), floats(24), floats(6), floats(6), floats(6)
s = [u + v + bias[i % 6] for i, (u, v) in enumerate(zip(x, skip))]
for rms in (0, 1):
    y = sum((norm(s[r:r+6], g, None if rms else h, 1e-5, rms) for r in range(0, 24, 6)), [])
    ins = [('x', F32, [2, 2, 6], x), ('skip', F32, [2, 2, 6], skip), ('g', F32, [6], g)]
    ins += [] if rms else [('h', F32, [6], h)]
    case('skip_simplified_layer_norm' if rms else 'skip_layer_norm', 'SkipSimplifiedLayerNormalization' if rms else 'SkipLayerNormalization', MS, ins + [('bias', F32, [6], bias)], [('y', F32, [2, 2, 6], y)], epsilon=1e-5)

def single(v): return struct.unpack('f', struct.pack('f', v))[0]
m, k, n = 9, 32, 11
a8, b8 = ints(m*k, 0, 255), ints(k*n, -128, 127)
bs, bias = [abs(v) + .1 for v in floats(n)], floats(n)
acc = matmul([v - 120 for v in a8], b8, m, k, n)
case('matmul_integer_to_float', 'MatMulIntegerToFloat', MS, [('a', U8, [m, k], a8), ('b', I8, [k, n], b8), ('as', F32, [], [.03]), ('bs', F32, [n], bs), ('az', U8, [], [120]), None, ('bias', F32, [n], bias)], [('y', F32, [m, n], [single(.03) * bs[i % n] * v + bias[i % n] for i, v in enumerate(acc)])])
x = floats(m*k, 2)
hi, lo = max(x + [0]), min(x + [0])
sc = single((hi - lo) / 255)
z = round(-lo / sc)
q = [min(255, max(0, round(v / sc) + z)) for v in x]
acc = matmul([v - z for v in q], [v - 3 for v in b8], m, k, n)
case('dynamic_quantize_matmul', 'DynamicQuantizeMatMul', MS, [('a', F32, [m, k], x), ('b', I8, [k, n], b8), ('bs', F32, [], [.05]), ('bz', I8, [], [3]), ('bias', F32, [n], bias)], [('y', F32, [m, n], [sc * single(.05) * v + bias[i % n] for i, v in enumerate(acc)])])

def attend(q, k, v, B, S, L, H, d, e, causal, extra=None, scale=None):
    y = [0.0] * (B*S*H*e)
    for b in range(B):
        for h in range(H):
            for i in range(S):
                keys = range(i + 1 if causal else L)
                t = [sum(q[(b*S+i)*H*d+h*d+c] * k[(b*L+j)*H*d+h*d+c] for c in range(d)) * (scale or d ** -.5) + (extra[(h*S+i)*L+j] if extra else 0) for j in keys]
                p = [math.exp(u - max(t)) for u in t]
                for c in range(e):
                    y[(b*S+i)*H*e+h*e+c] = sum(p[j] * v[(b*L+j)*H*e+h*e+c] for j in keys) / sum(p)
    return y
B, S, L, H, d, e = 2, 5, 7, 3, 4, 2
q, k, v = floats(B*S*H*d), floats(B*L*H*d), floats(B*L*H*e)
bias, extra = floats(2*H*d + H*e), floats(H*S*L)
Q, K, V = ('q', F32, [B, S, H*d], q), ('k', F32, [B, L, H*d], k), ('v', F32, [B, L, H*e], v)
case('multi_head_attention', 'MultiHeadAttention', MS, [Q, K, V], [('y', F32, [B, S, H*e], attend(q, k, v, B, S, L, H, d, e, 0))], num_heads=H)
plus = lambda x, b: [t + b[i % len(b)] for i, t in enumerate(x)]
y = attend(plus(q, bias[:12]), plus(k, bias[12:24]), plus(v, bias[24:]), B, S, L, H, d, e, 0, extra, .3)
case('multi_head_attention_bias', 'MultiHeadAttention', MS, [Q, K, V, ('bias', F32, [2*H*d + H*e], bias), None, ('extra', F32, [1, H, S, L], extra)], [('y', F32, [B, S, H*e], y)], num_heads=H, scale=.3)
floats(2*B*H*(d + e)) # so that what follows stays as it was recorded
D = 6
x, w, bias = floats(B*S*D), floats(D*3*H*d), floats(3*H*d)
for causal in (0, 1):
    all = plus(matmul(x, w, B*S, D, 3*H*d), bias)
    cut = lambda o: [all[r*3*H*d + o*H*d + c] for r in range(B*S) for c in range(H*d)]
    y = attend(cut(0), cut(1), cut(2), B, S, S, H, d, d, causal)
    case('attention_causal' if causal else 'attention', 'Attention', MS, [('x', F32, [B, S, D], x), ('w', F32, [D, 3*H*d], w), ('bias', F32, [3*H*d], bias)], [('y', F32, [B, S, H*d], y)], num_heads=H, unidirectional=causal)

# A transposed convolution that cuts its result on one side and pads it on the
# other, so that it is as wide as without both.
x, w = floats(2*3*3), floats(2*2)
y = [0.0] * 20
for c in range(2):
    for i in range(3):
        for j in range(3):
            for k in range(2):
                if 2*j >= 1:
                    y[(i+k)*5 + 2*j-1] += x[(c*3+i)*3+j] * w[c*2+k]
case('conv_transpose_cut', 'ConvTranspose', '', [('x', F32, [1, 2, 3, 3], x), ('w', F32, [2, 1, 2, 1], w)], [('y', F32, [1, 1, 4, 5], y)], strides=[1, 2], pads=[0, 1, 0, 0], output_padding=[0, 1])
# A scatter along a dim of size 1, beside another.
x, u = floats(3), floats(2)
case('scatter_elements_one', 'ScatterElements', '', [('x', F32, [1, 3, 1], x), ('i', I32, [1, 2, 1], [0, -1]), ('u', F32, [1, 2, 1], u)], [('y', F32, [1, 3, 1], [u[0], u[1], x[2]])], axis=2)
# The largest and smallest elements: one alone, an axis of one element, ties, nan
# (the largest), infinities, and integers whose negation would overflow.
def top(name, t, dims, x, k, largest):
    rows, n = dims[0], dims[1]
    at = []
    for r in range(rows):
        row = x[r*n:r*n+n]
        rank = lambda i: (math.isnan(row[i]), 0 if math.isnan(row[i]) else row[i])
        order = sorted(range(n), key=rank) if not largest else sorted(range(n), key=lambda i: (not rank(i)[0], -rank(i)[1]))
        at += order[:k]
    v = [x[i // k * n + p] for i, p in enumerate(at)]
    case(name, 'TopK', '', [('x', t, dims, x), ('k', I64, [1], [k])], [('v', t, [rows, k], v), ('i', I64, [rows, k], at)], largest=largest)
nan, inf = math.nan, math.inf
top('top_k_one', F32, [3, 5], [1, 3, 2, 3, 0, -inf, -inf, -inf, -inf, -inf, 0, nan, inf, nan, -1], 1, 1)
top('top_k_nan', F32, [3, 5], [1, 3, 2, 3, 0, -inf, -inf, -inf, -inf, -inf, 0, nan, inf, nan, -1], 5, 1)
top('top_k_smallest_nan', F32, [2, 5], [1, 3, 1, -inf, 0, 0, nan, 2, 1, -1], 5, 0)
# inf comes before nan, also behind it and beside the largest number.
top('top_k_smallest_inf', F32, [2, 5], [nan, inf, 3.4028234663852886e38, inf, nan, 1, nan, -inf, inf, 0], 5, 0)
top('top_k_single', F32, [4, 1], floats(4), 1, 1)
top('top_k_bytes', U8, [2, 4], [0, 255, 7, 0, 200, 100, 100, 255], 3, 0)
top('top_k_least', I32, [1, 4], [-2**31, 5, 2**31 - 1, -2**31], 4, 0)

# The first and the last nan are the largest element, and the smallest.
x = [1, nan, 3, nan, 2, -inf, 7, 7, -1, 0, nan, nan, nan, nan, nan]
def place(row, most, last):
    nans = [i for i, v in enumerate(row) if math.isnan(v)]
    at = nans or [i for i, v in enumerate(row) if v == most(row)]
    return at[-1 if last else 0]
rows = [x[i:i+5] for i in range(0, 15, 5)]
for op, most in (('ArgMax', max), ('ArgMin', min)):
    for last in (0, 1):
        case(op.lower() + ('_nan_last' if last else '_nan'), op, '', [('x', F32, [3, 5], x)], [('y', I64, [3, 1], [place(r, most, last) for r in rows])], axis=1, select_last_index=last)
case('hardmax_nan', 'Hardmax', '', [('x', F32, [3, 5], x)], [('y', F32, [3, 5], [float(i == place(r, max, 0)) for r in rows for i in range(5)])])
# Windows with nan, some beside pads, give its index.
x = [1, nan, 3, 0, 5, 2, -inf, 4, nan, 6, 7, nan, 8, 9, 1, 0, 3, 3, 2, 1]
y, at = [], []
for i in range(4):
    for j in range(5):
        w = [r*5 + c for r in range(i-1, i+2) for c in range(j-1, j+2) if 0 <= r < 4 and 0 <= c < 5]
        at.append(w[place([x[p] for p in w], max, 0)])
        y.append(x[at[-1]])
case('maxpool_nan_indices', 'MaxPool', '', [('x', F32, [1, 1, 4, 5], x)], [('y', F32, [1, 1, 4, 5], y), ('i', I64, [1, 1, 4, 5], at)], kernel_shape=[3, 3], pads=[1, 1, 1, 1])

# Convolutions of bytes: a zero point of w is a number, one per channel or none,
# and pads count as zero points of x.
def conv_bytes(name, tx, tw, dims, m, kernel, zx, zw, groups=1, pads=(0, 0, 0, 0), strides=(1, 1), dilations=(1, 1), linear=0):
    lim = {U8: (0, 255), I8: (-128, 127)}
    n, c, h, w = dims
    kc, kh, kw = c // groups, kernel[0], kernel[1]
    x, k = ints(n*c*h*w, *lim[tx]), ints(m*kc*kh*kw, *lim[tw])
    z = zw if isinstance(zw, list) else [zw or 0] * m
    oh = (h + pads[0] + pads[2] - (kh-1)*dilations[0] - 1) // strides[0] + 1
    ow = (w + pads[1] + pads[3] - (kw-1)*dilations[1] - 1) // strides[1] + 1
    y = []
    for s in range(n):
        for o in range(m):
            for i in range(oh):
                for j in range(ow):
                    t = 0
                    for d in range(kc):
                        for a in range(kh):
                            for b in range(kw):
                                p, q = i*strides[0] - pads[0] + a*dilations[0], j*strides[1] - pads[1] + b*dilations[1]
                                if 0 <= p < h and 0 <= q < w:
                                    t += (x[((s*c + o//(m//groups)*kc + d)*h + p)*w + q] - (zx or 0)) * (k[((o*kc + d)*kh + a)*kw + b] - z[o])
                    y.append(t)
    def zero(nm, t, z):
        return None if z is None else (nm, t, [len(z)], z) if isinstance(z, list) else (nm, t, [], [z])
    X, W = ('x', tx, dims, x), ('w', tw, [m, kc, kh, kw], k)
    attrs = dict(group=groups, pads=list(pads), strides=list(strides), dilations=list(dilations))
    if not linear:
        return case(name, 'ConvInteger', '', [X, W, zero('zx', tx, zx), zero('zw', tw, zw)], [('y', I32, [n, m, oh, ow], y)], **attrs)
    # The scale is a power of two, so that it is exact.
    bias = ints(m, -4000, 4000)
    y = [v + bias[i // (oh*ow) % m] for i, v in enumerate(y)]
    y = [min(255, max(0, round(v / 256) + 100)) for v in y]
    one = lambda nm, v: (nm, F32, [], [v])
    case(name, 'QLinearConv', '', [X, one('sx', .25), zero('zx', tx, zx or 0), W, one('sw', .5), zero('zw', tw, zw or 0), one('sy', 32.0), ('zy', U8, [], [100]), ('b', I32, [m], bias)], [('y', U8, [n, m, oh, ow], y)], **attrs)

conv_bytes('conv_integer_u8_i8', U8, I8, [1, 8, 7, 9], 16, [3, 3], 3, 0, pads=(1, 1, 1, 1))
conv_bytes('conv_integer_u8_u8', U8, U8, [2, 3, 6, 6], 5, [3, 2], 200, 131, pads=(1, 0, 2, 1), strides=(2, 1))
conv_bytes('conv_integer_u8_u8_no_zeros', U8, U8, [1, 4, 5, 5], 3, [2, 2], None, None, pads=(1, 1, 0, 0))
conv_bytes('conv_integer_i8_i8_no_zeros', I8, I8, [1, 4, 5, 5], 3, [1, 1], None, None)
conv_bytes('conv_integer_i8_u8_channels', I8, U8, [1, 6, 8, 7], 4, [3, 3], -7, ints(4, 0, 255), groups=2, pads=(2, 2, 2, 2), dilations=(2, 2))
conv_bytes('conv_integer_depthwise', U8, I8, [2, 4, 6, 5], 4, [3, 3], 128, ints(4, -128, 127), groups=4, pads=(1, 1, 1, 1), strides=(1, 2))
conv_bytes('qlinear_conv_u8_i8', U8, I8, [1, 8, 6, 6], 8, [3, 3], 17, 0, pads=(1, 1, 1, 1), linear=1)
conv_bytes('qlinear_conv_i8_u8_groups', I8, U8, [1, 6, 6, 6], 6, [3, 3], 5, ints(6, 0, 255), groups=3, pads=(0, 1, 1, 0), strides=(2, 2), linear=1)

# Quantised operators of com.microsoft: computed from the numbers that the
# integers stand for, in double precision.
import numpy as np
def scaled(t, dims, scale, zero):
    lim = {U8: (0, 255), I8: (-128, 127)}[t]
    x = np.array(ints(int(np.prod(dims)), *lim)).reshape(dims)
    return x, float(np.float32(scale)) * (x - zero)
def part(nm, t, x, scale, zero, optional=0):
    return [(nm, t, list(x.shape), x.ravel().tolist()), (nm + 's', F32, [], [scale]), None if optional else (nm + 'z', t, [], [zero])]
def to_scale(t, y, scale, zero):
    lo, hi = {U8: (0, 255), I8: (-128, 127)}[t]
    q = np.clip(np.rint(y / float(np.float32(scale))) + zero, lo, hi).astype(int)
    return [('ys', F32, [], [scale]), ('yz', t, [], [zero])], [('y', t, list(q.shape), q.ravel().tolist())]
a, ra = scaled(U8, (2, 4, 5), .0213, 131)
b, rb = scaled(U8, (4, 1), .0371, 0)
for op, y in (('Add', ra + rb), ('Mul', ra * rb)):
    tail, out_y = to_scale(U8, y, .0507 if op == 'Add' else .113, 120)
    case('qlinear_' + op.lower(), 'QLinear' + op, MS, part('a', U8, a, .0213, 131) + part('b', U8, b, .0371, 0, op == 'Mul') + tail, out_y)
a, ra = scaled(I8, (3, 4, 6), .0413, -7)
tail, out_y = to_scale(I8, 1 / (1 + np.exp(-ra)), .00391, -128)
case('qlinear_sigmoid', 'QLinearSigmoid', MS, part('a', I8, a, .0413, -7) + tail, out_y)
tail, out_y = to_scale(I8, np.where(ra < 0, .2 * ra, ra), .0303, -60)
case('qlinear_leaky_relu', 'QLinearLeakyRelu', MS, part('a', I8, a, .0413, -7) + tail, out_y, alpha=.2)
e = np.exp(ra - ra.max(1, keepdims=True))
tail, out_y = to_scale(I8, e / e.sum(1, keepdims=True), 1 / 256, -128)
case('qlinear_softmax', 'QLinearSoftmax', MS, part('a', I8, a, .0413, -7) + tail, out_y, axis=1, **{'opset': 13})
e = np.exp(ra.reshape(3, -1) - ra.reshape(3, -1).max(1, keepdims=True))
tail, out_y = to_scale(I8, (e / e.sum(1, keepdims=True)).reshape(ra.shape), 1 / 256, -128)
case('qlinear_softmax_11', 'QLinearSoftmax', MS, part('a', I8, a, .0413, -7) + tail, out_y, axis=1, **{'opset': 11})
b, rb = scaled(I8, (6,), .0291, 20)
c = np.array(ints(12, 0, 1)).reshape(3, 4, 1)
tail, out_y = to_scale(I8, np.where(c, ra, rb), .0437, 3)
case('qlinear_where', 'QLinearWhere', MS, [('c', BOOL, [3, 4, 1], c.ravel().tolist())] + part('a', I8, a, .0413, -7) + part('b', I8, b, .0291, 20) + tail, out_y)
b, rb = scaled(I8, (3, 2, 6), .0291, 20)
tail, out_y = to_scale(I8, np.concatenate((ra, rb), 1), .0437, 3)
case('qlinear_concat', 'QLinearConcat', MS, tail + part('a', I8, a, .0413, -7) + part('b', I8, b, .0291, 20), out_y, axis=1)
a, ra = scaled(U8, (2, 3, 5, 7), .0413, 100)
tail, out_y = to_scale(U8, ra.mean((2, 3), keepdims=True), .0111, 128)
case('qlinear_global_average_pool', 'QLinearGlobalAveragePool', MS, part('a', U8, a, .0413, 100) + tail, out_y)
tail, out_y = to_scale(U8, ra.mean((1, 2), keepdims=True), .0111, 128)
case('qlinear_global_average_pool_last', 'QLinearGlobalAveragePool', MS, part('a', U8, a, .0413, 100) + tail, out_y, channels_last=1)
windows = lambda x: sum(x[..., i:i+3:2, j:j+5:2] for i in range(3) for j in range(3)) / 9
tail, out_y = to_scale(U8, windows(ra), .0229, 128)
case('qlinear_average_pool', 'QLinearAveragePool', MS, part('a', U8, a, .0413, 100) + tail, out_y, kernel_shape=[3, 3], strides=[2, 2])
tail, out_y = to_scale(U8, np.moveaxis(windows(ra), 1, -1), .0229, 128)
case('qlinear_average_pool_last', 'QLinearAveragePool', MS, part('a', U8, np.moveaxis(a, 1, -1), .0413, 100) + tail, out_y, kernel_shape=[3, 3], strides=[2, 2], channels_last=1)
a, ra = scaled(U8, (7, 4), .0213, 131)
b, rb = scaled(I8, (6, 7), 1, np.array(ints(6, -128, 127))[:, None])
s, bias = [abs(v) * .02 + .003 for v in floats(6)], ints(6, -30000, 30000)
s32 = np.array(s, np.float32).astype(float)
y = .75 * s32 * (ra.T @ rb.T + np.array(bias) * float(np.float32(.0213)))
tail, out_y = to_scale(U8, y, .311, 121)
ins = part('a', U8, a, .0213, 131) + [('b', I8, [6, 7], b.ravel().tolist()), ('bs', F32, [6], s), ('bz', I8, [6], (b - rb)[:, 0].astype(int).tolist()), ('bias', I32, [6], bias)]
case('qgemm', 'QGemm', MS, ins + tail, out_y, transA=1, transB=1, alpha=.75)
case('qgemm_float', 'QGemm', MS, ins, [('y', F32, [4, 6], y.ravel().tolist())], transA=1, transB=1, alpha=.75)

# Attention with masks, past keys and values, heads that share keys, and rotary
# positions: y = softmax(scale q k^T + add) v, by heads; `add` hides keys.
def heads_of(x, h): return np.array(x, float).reshape(*x.shape[:2], h, -1).swapaxes(1, 2)
def attended(q, k, v, add=0, scale=None, cap=0):
    t = q @ k.swapaxes(2, 3) * (scale or q.shape[3] ** -.5)
    t = (cap * np.tanh(t / cap) if cap else t) + add
    p = np.exp(t - t.max(3, keepdims=True))
    return ((p / p.sum(3, keepdims=True)) @ v).swapaxes(1, 2).reshape(q.shape[0], q.shape[2], -1)
def array(*dims): return np.array(floats(int(np.prod(dims))), np.float32).reshape(dims)
def given(nm, x, t=F32): return (nm, t, list(np.shape(x)), np.ravel(x).tolist())
B, S, P, H, d, D = 2, 4, 3, 3, 4, 6
x, w, bias, past = array(B, S, D), array(D, 3*H*d), array(3*H*d), array(2, B, H, P, d)
q, k, v = (heads_of(t, H) for t in np.split(x @ w + bias, 3, axis=2))
ins = [given('x', x), given('w', w), given('bias', bias)]
both = [np.concatenate((o, n), 2) for o, n in zip(past, (k, v))]
key = np.arange(S)
mask = np.array([[1, 1, 0, 1], [0, 1, 1, 0]])
add = np.where(mask, 0, -10000)[:, None, None]
case('attention_mask', 'Attention', MS, ins + [given('m', mask, I32)], [given('y', attended(q, k, v, add))], num_heads=H)
of_query = np.array(ints(B*S*S, 0, 1)).reshape(B, 1, S, S)
case('attention_mask_3d', 'Attention', MS, ins + [given('m', of_query[:, 0], I32)], [given('y', attended(q, k, v, np.where(of_query, 0, -3.0)))], num_heads=H, mask_filter_value=-3.0)
seen = lambda end, start=(0, 0), n=S: np.where((np.arange(n) < np.array(end)[:, None]) & (np.arange(n) >= np.array(start)[:, None]), 0, -10000)[:, None, None]
case('attention_mask_ends', 'Attention', MS, ins + [given('m', [4, 3, 1, 0], I32)], [given('y', attended(q, k, v, seen((4, 3), (1, 0))))], num_heads=H)
causal = np.where(np.arange(S + P) <= np.arange(S)[:, None] + P, 0, -np.inf)
case('attention_past', 'Attention', MS, ins + [given('m', [7, 5], I32), given('past', past)], [given('y', attended(q, *both, seen((7, 5), n=7) + causal)), given('present', both)], num_heads=H, unidirectional=1)
a, ra = scaled(U8, (B, S, D), .0213, 120)
b, rb = scaled(I8, (D, 3*H*d), .0091, 0)
q, k, v = (heads_of(t, H) for t in np.split(ra @ rb + bias, 3, axis=2))
case('qattention', 'QAttention', MS, [given('x', a, U8), given('w', b, I8), given('bias', bias), given('xs', .0213), given('ws', .0091), given('m', [4, 2], I32), given('xz', 120, U8)], [given('y', attended(q, k, v, seen((4, 2))))], num_heads=H)
q, k, v, of_all = array(B, S, H*d), array(B, S, H*d), array(B, S, H*d), array(3*H*d)
parts = [heads_of(t + o, H) for t, o in zip((q, k, v), np.split(of_all, 3))]
both = [np.concatenate((o, n), 2) for o, n in zip(past, parts[1:])]
mask = np.array(ints(B*(S+P), 0, 1)).reshape(B, 1, 1, -1)
case('multi_head_attention_past', 'MultiHeadAttention', MS, [given('q', q), given('k', k), given('v', v), given('b', of_all), given('m', mask[:, 0, 0], I32), None, given('pk', past[0]), given('pv', past[1])], [given('y', attended(parts[0], *both, np.where(mask, 0, -10000) + causal)), given('nk', both[0]), given('nv', both[1])], num_heads=H, unidirectional=1)
qkv = array(B, S, H, 3, d)
q, k, v = np.moveaxis(qkv, 3, 0).swapaxes(2, 3)
case('multi_head_attention_packed', 'MultiHeadAttention', MS, [given('q', qkv)], [given('y', attended(q, k, v))], num_heads=H)
case('multi_head_attention_packed_kv', 'MultiHeadAttention', MS, [given('q', q.swapaxes(1, 2).reshape(B, S, -1)), given('k', qkv[:, :, :, 1:])], [given('y', attended(q, k, v))], num_heads=H)
case('multi_head_attention_4d', 'MultiHeadAttention', MS, [given('q', q.swapaxes(1, 2).reshape(B, S, -1)), given('k', k), given('v', v)], [given('y', attended(q, k, v))], num_heads=H)

angles = np.outer(np.arange(9), [1, .1, .03])
def rotated(x, at, interleaved=0):
    c, s = (f(angles)[at][:, None] for f in (np.cos, np.sin))
    a, b = (x[..., 0:6:2], x[..., 1:6:2]) if interleaved else (x[..., :3], x[..., 3:6])
    y = np.stack((a * c - b * s, b * c + a * s), -1 if interleaved else -2)
    return np.concatenate((y.reshape(*a.shape[:-1], 6), x[..., 6:]), -1)
table = [given('cos', np.cos(angles)), given('sin', np.sin(angles))]
at = np.array([[0, 1, 2, 3], [4, 5, 1, 2]])
flat = lambda x: x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)
x = array(B, S, 12)
case('rotary_embedding', 'RotaryEmbedding', MS, [given('x', x), given('at', at, I64)] + table, [given('y', flat(rotated(heads_of(x, 2), at)))])
x = array(B, S, 16)
case('rotary_embedding_part', 'RotaryEmbedding', MS, [given('x', x), given('at', at, I64)] + table, [given('y', flat(rotated(heads_of(x, 2), at, 1)))], interleaved=1, num_heads=2, rotary_embedding_dim=6)
x = array(B, 2, S, 6)
case('rotary_embedding_4d', 'RotaryEmbedding', MS, [given('x', x), given('at', [3], I64)] + table, [given('y', rotated(x, np.arange(3, 7)[None]))])

H, G, d = 4, 2, 6
shared = lambda x: np.repeat(x, H // G, 1)
causal = np.where(key <= key[:, None], 0, -np.inf)
total = lambda n: given('t', n, I32)
q, k, v = array(B, S, H*d), array(B, S, G*d), array(B, S, G*d)
hq, hk, hv = heads_of(q, H), heads_of(k, G), heads_of(v, G)
last = given('last', [S-1, S-1], I32)
groups = lambda name, ins, out, **attrs: case(name, 'GroupQueryAttention', MS, ins, out, num_heads=H, kv_num_heads=G, **attrs)
presents = lambda k, v: [given('nk', k), given('nv', v)]
near = np.where(key[:, None] - key < 2, 0, -np.inf)
groups('group_query_attention', [given('q', q), given('k', k), given('v', v), None, None, last, total(S)], [given('y', attended(hq, shared(hk), shared(hv), causal + near, .3, 1.5))] + presents(hk, hv), scale=.3, softcap=1.5, local_window_size=2)
at = np.arange(S)[None]
rq, rk = rotated(hq, at), rotated(hk, at)
groups('group_query_attention_packed', [given('q', np.concatenate((q, k, v), 2)), None, None, None, None, last, total(S)] + table, [given('y', attended(rq, shared(rk), shared(hv), causal))] + presents(rk, hv), do_rotary=1)
# One more query each, of batches with 5 and 2 past keys in buffers of 5.
q, k, v = hq[:, :, :1], hk[:, :, :1], hv[:, :, :1]
past, n_past = array(2, B, G, 5, d), [5, 2]
at = np.array(n_past)[:, None]
rq, rk = rotated(q, at, 1), rotated(k, at, 1)
both = np.zeros((2, B, G, 6, d))
for i, n in enumerate(n_past):
    both[:, i, :, :n] = past[:, i, :, :n]
    both[:, i, :, n] = rk[i, :, 0], v[i, :, 0]
add = np.where(np.arange(6) <= at, 0, -np.inf)[:, None, None]
groups('group_query_attention_past', [given('q', flat(q)), given('k', flat(k)), given('v', flat(v)), given('pk', past[0]), given('pv', past[1]), given('last', n_past, I32), total(6)] + table, [given('y', attended(rq, shared(both[0]), shared(both[1]), add))] + presents(*both), do_rotary=1, rotary_interleaved=1)

# Operators in forms that opsets 18 to 22 brought.
def newer(name, version, op, ins, outs, **attrs): case('%s_%d' % (name, version), op, '', ins, outs, version, **attrs)
ys = lambda *y, t=F32: [given('y%d' % i, v, t) for i, v in enumerate(y)]
x = array(2, 3, 4)
axes = given('axes', [0, -1], I64)
for op, f in (('L1', lambda x, **k: abs(x).sum(**k)), ('L2', lambda x, **k: (x * x).sum(**k) ** .5), ('LogSum', lambda x, **k: np.log(x.sum(**k))), ('LogSumExp', lambda x, **k: np.log(np.exp(x).sum(**k))), ('Max', np.max), ('Mean', np.mean), ('Min', np.min), ('Prod', np.prod), ('SumSquare', lambda x, **k: (x * x).sum(**k))):
    z = abs(x) if op == 'LogSum' else x
    newer('reduce_' + op.lower(), 18, 'Reduce' + op, [given('x', z), axes], ys(f(z.astype(float), axis=(0, 2))), keepdims=0)
newer('reduce_mean_noop', 18, 'ReduceMean', [given('x', x), given('axes', [], I64)], ys(x), noop_with_empty_axes=1)
newer('reduce_mean_all', 18, 'ReduceMean', [given('x', x)], ys(x.mean(keepdims=True)))
b = np.array([[0, 1, 0], [0, 0, 0]])
newer('reduce_max_bool', 20, 'ReduceMax', [given('b', b, BOOL), given('axes', [1], I64)], ys(b.max(1, keepdims=True), t=BOOL))
newer('reduce_min_bool', 20, 'ReduceMin', [given('b', b, BOOL), given('axes', [0], I64)], ys(b.min(0), t=BOOL), keepdims=0)
newer('pad_axes', 18, 'Pad', [given('x', x), given('pads', [1, 0, 2, 3], I64), given('value', .5), given('axes', [-1, 0], I64)], ys(np.pad(x, ((0, 3), (0, 0), (1, 2)), constant_values=.5)))
newer('pad_wrap', 19, 'Pad', [given('x', x), given('pads', [0, 2, 1, 1, 0, 2], I64)], ys(np.pad(x, ((0, 1), (2, 0), (1, 2)), 'wrap')), mode='wrap')
x = array(2, 7)
newer('split_uneven', 18, 'Split', [given('x', x)], ys(x[:, :3], x[:, 3:6], x[:, 6:]), axis=1, num_outputs=3)
a, b = np.array(ints(6, -100, 100)), np.array(ints(6, -100, 100))
for op, f in (('And', np.bitwise_and), ('Or', np.bitwise_or), ('Xor', np.bitwise_xor)):
    newer('bitwise_' + op.lower(), 18, 'Bitwise' + op, [given('a', a, I32), given('b', b, I32)], ys(f(a, b), t=I32))
newer('bitwise_not', 18, 'BitwiseNot', [given('a', a, I8)], ys(~a, t=I8))
newer('mish', 18, 'Mish', [given('x', 4 * x)], ys(4 * x * np.tanh(np.log1p(np.exp(4 * x)))))
newer('gelu', 20, 'Gelu', [given('x', x)], ys(np.vectorize(gelu)(x)))
newer('gelu_tanh', 20, 'Gelu', [given('x', x)], ys(np.vectorize(fast)(x)), approximate='tanh')
x = array(2, 6, 3, 2)
z = x.astype(float).reshape(2, 3, -1)
z = ((z - z.mean(2, keepdims=True)) / np.sqrt(z.var(2, keepdims=True) + 1e-5)).reshape(2, 3, 2, 3, 2)
g, h = array(3), array(3)
newer('group_norm', 18, 'GroupNormalization', [given('x', x), given('g', g), given('h', h)], ys((z * g[:, None, None, None] + h[:, None, None, None]).reshape(x.shape)), num_groups=3)
g, h = array(6), array(6)
newer('group_norm', 21, 'GroupNormalization', [given('x', x), given('g', g), given('h', h)], ys(z.reshape(x.shape) * g[:, None, None] + h[:, None, None]), num_groups=3)
x = array(1, 2, 7, 8)
# Windows of 2 by 3 elements, of which rows are 2 apart.
windows = lambda x: np.stack([x[:, :, i:i+x.shape[2]-2, j:j+x.shape[3]-2] for i in (0, 2) for j in range(3)], -1)
newer('average_pool_dilated', 19, 'AveragePool', [given('x', x)], ys(windows(x).mean(-1)), kernel_shape=[2, 3], dilations=[2, 1])
pads = ((0, 0), (0, 0), (1, 1), (1, 0))
y = windows(np.pad(x, pads)).sum(-1) / windows(np.pad(np.ones_like(x), pads)).sum(-1)
newer('average_pool_dilated_pads', 22, 'AveragePool', [given('x', x)], ys(y), kernel_shape=[2, 3], dilations=[2, 1], pads=[1, 1, 1, 0])
newer('lp_pool_dilated', 18, 'LpPool', [given('x', x)], ys((windows(x) ** 2).sum(-1) ** .5), kernel_shape=[2, 3], dilations=[2, 1], p=2)
newer('dropout', 22, 'Dropout', [given('x', x), given('r', .5), given('t', 0, BOOL)], ys(x) + [given('mask', np.ones(x.shape, int), BOOL)])
x = array(1, 1, 2, 4)
newer('resize_axes', 18, 'Resize', [given('x', x), None, None, given('sizes', [6, 8], I64)], ys(x.repeat(3, 2).repeat(2, 3)), axes=[2, 3])
newer('resize_not_larger', 18, 'Resize', [given('x', x), None, None, given('sizes', [7, 12], I64)], ys(x.repeat(3, 2).repeat(3, 3)), axes=[2, 3], keep_aspect_ratio_policy='not_larger')
newer('resize_not_smaller', 19, 'Resize', [given('x', x), None, None, given('sizes', [5, 12], I64)], ys(x.repeat(3, 2).repeat(3, 3)), axes=[2, 3], keep_aspect_ratio_policy='not_smaller')
# half_pixel_symmetric: 1.9 * 4 elements give 7, which lie around the centre.
at = 2 + (np.arange(7) + .5 - 3.5) / 1.9 - .5
low = np.floor(at).astype(int)
pick = lambda i: x[..., np.clip(i, 0, 3)]
newer('resize_symmetric', 19, 'Resize', [given('x', x), None, given('scales', [1, 1, 1, 1.9])], ys(pick(low) * (1 - at + low) + pick(low + 1) * (at - low)), mode='linear', coordinate_transformation_mode='half_pixel_symmetric')
x = array(4, 6)
for version, to in ((19, U8), (21, U16), (21, I16)):
    lo, hi, scale, zero = {U8: (0, 255, .0093, 110), U16: (0, 65535, .000031, 30000), I16: (-32768, 32767, .000031, -700)}[to]
    q = np.clip(np.rint(x / np.float32(scale)) + zero, lo, hi).astype(int)
    ins = [given('s', scale), given('z', zero, to)]
    newer('quantize_linear_%d' % to, version, 'QuantizeLinear', [given('x', x)] + ins, [given('y', q, to)])
    newer('dequantize_linear_%d' % to, version, 'DequantizeLinear', [given('x', q, to)] + ins, ys((q - zero) * float(np.float32(scale))))
newer('quantize_linear_dtype', 21, 'QuantizeLinear', [given('x', x), given('s', .01)], ys(np.clip(np.rint(x / np.float32(.01)), -128, 127).astype(int), t=I8), output_dtype=I8)
# Blocks of 2 rows, and the last block of 5 columns, have scales and zero points.
for name, block, axis in (('rows', 2, 0), ('columns', 5, 1)):
    n = -(-x.shape[axis] // block)
    s, zero = abs(array(*((n, 6) if axis == 0 else (4, n)))) * .02 + .002, None
    zero = np.array(ints(s.size, -20, 20)).reshape(s.shape)
    wide = lambda t: np.repeat(t, block, axis)[:4, :6]
    q = np.clip(np.rint(x / wide(s)) + wide(zero), -128, 127).astype(int)
    ins = [given('s', s), given('z', zero, I8)]
    newer('quantize_linear_' + name, 21, 'QuantizeLinear', [given('x', x)] + ins, [given('y', q, I8)], axis=axis, block_size=block)
    newer('dequantize_linear_' + name, 21, 'DequantizeLinear', [given('x', q, I8)] + ins, ys((q - wide(zero)) * wide(s).astype(float)), axis=axis, block_size=block)
x = array(2, 3)
newer('identity', 19, 'Identity', [given('x', x)], ys(x))
newer('reshape', 21, 'Reshape', [given('x', x), given('shape', [3, -1], I64)], ys(x.reshape(3, 2)))
newer('flatten', 21, 'Flatten', [given('x', x)], ys(x))
newer('equal_bool', 19, 'Equal', [given('a', [1, 0, 1], BOOL), given('b', [1, 1, 0], BOOL)], ys([1, 0, 0], t=BOOL))
newer('cast', 21, 'Cast', [given('x', [1.5, -2.5, 300.25])], ys([1, -2, 300], t=I16), to=I16)
newer('is_inf', 20, 'IsInf', [given('x', [1, inf, -inf, nan])], ys([0, 1, 0, 0], t=BOOL), detect_negative=0)
newer('is_nan', 20, 'IsNaN', [given('x', [1, inf, -inf, nan])], ys([0, 0, 0, 1], t=BOOL))
newer('instance_norm', 22, 'InstanceNormalization', [given('x', array(1, 2, 3)[:, :1] * 0 + 1), given('g', [1.0]), given('h', [.5])], ys(np.full((1, 1, 3), .5)))

# Models that ONNX's checker refuses; the test cli/onnx/import has the messages.
os.makedirs(os.path.join(out, '../refused'), exist_ok=True)
def refused(name, version, op, ins, outs, domain='', **attrs):
    open(os.path.join(out, '../refused', name), 'wb').write(model(name, op, domain, ins, outs, version, **attrs))
F64 = 11
x, y = ('x', F32, [7]), ('y', F32, [7])
refused('types', 17, 'Add', [x, ('z', F64, [7])], [y])
refused('attribute', 17, 'Relu', [x], [y], slope=.5)
refused('inputs', 17, 'Relu', [x, ('z', F32, [7])], [y])
refused('opset', 19, 'Gelu', [x], [y])
refused('split_equal', 13, 'Split', [x], [y, ('z', F32, [3])])
refused('split_number', 18, 'Split', [x], [y, ('z', F32, [3])], num_outputs=3)
refused('split_sum', 12, 'Split', [x], [y, ('z', F32, [3])], split=[3, 3])
refused('zero_point', 17, 'MatMulIntegerToFloat', [('a', U8, [4, 4]), ('b', U8, [4, 4]), ('as', F32, []), ('bs', F32, []), ('z', U8, [4, 4])], [('y', F32, [4, 4])], MS)
refused('batch', 17, 'MultiHeadAttention', [('q', F32, [0, 2, 4])] * 3 + [None, ('m', I32, [0])], [('y', F32, [0, 2, 4])], MS, num_heads=2)
refused('past', 17, 'GroupQueryAttention', [('q', F32, [1, 1, 8]), ('k', F32, [1, 1, 8]), ('v', F32, [1, 1, 8]), ('pk', F32, [1, 1, 3, 4]), ('pv', F32, [1, 1, 3, 4]), ('last', I32, [1]), ('t', I32, [])], [('y', F32, [1, 1, 8])], MS, num_heads=2, kv_num_heads=2)
